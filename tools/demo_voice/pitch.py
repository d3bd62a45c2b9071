"""Estimation of the F0 of a waveform by normalized autocorrelation, for the evaluation."""

from __future__ import annotations

import numpy as np


def track_f0(audio: np.ndarray, low: float = 55.0, high: float = 420.0) -> np.ndarray:
    """Return the F0 of 24 kHz audio in Hz, with 50 values per second and 0 for unvoiced audio.

    The method is normalized autocorrelation at 8 kHz.
    """
    small = audio[: len(audio) // 3 * 3].reshape(-1, 3).mean(1)
    hop, window = 160, 480
    count = len(audio) // 480
    padded = np.pad(small, (window // 2 - hop // 2, window))
    frames = np.lib.stride_tricks.sliding_window_view(padded, window)[::hop][:count]
    taper = np.hanning(window)
    spectrum = np.abs(np.fft.rfft((frames - frames.mean(1, keepdims=True)) * taper, 1024)) ** 2
    base = np.fft.irfft(np.abs(np.fft.rfft(taper, 1024)) ** 2)[:256]
    auto = np.fft.irfft(spectrum)[:, :256]
    energy = auto[:, 0]
    auto = auto / (energy[:, None] + 1e-9) / (base / base[0])
    first, last = int(8000 / high), int(8000 / low)
    area = auto[:, first : last + 1]
    # Use the first strong peak, not the highest peak: in clean speech, the peak one octave lower can be as high.
    inner = (area[:, 1:-1] > area[:, :-2]) & (area[:, 1:-1] >= area[:, 2:])
    strong = inner & (area[:, 1:-1] > 0.9 * area.max(1, keepdims=True))
    lag = np.where(strong.any(1), strong.argmax(1) + 1, area.argmax(1)) + first
    rows = np.arange(len(lag))
    left, mid, right = (auto[rows, np.clip(lag + k, 0, 255)] for k in (-1, 0, 1))
    bend = left - 2 * mid + right
    shift = np.where(np.abs(bend) > 1e-6, 0.5 * (left - right) / np.where(bend == 0, 1, bend), 0).clip(-0.5, 0.5)
    loud = energy > 0.02 * np.percentile(energy, 95)
    return np.where((mid > 0.55) & loud, 8000 / (lag + shift), 0).astype(np.float32)


def median_f0(f0: np.ndarray) -> float:
    """Return the median of the F0 values of voiced audio, or 0 if there are fewer than four."""
    voiced = f0[f0 > 0].astype(np.float32)
    return float(np.median(voiced)) if len(voiced) > 3 else 0.0
