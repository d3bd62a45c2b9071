"""Estimation of the F0 (pitch) of speech."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def track_f0(audio: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the F0 of 24 kHz audio in Hz (55 to 420): 50 values per second, 0 if unvoiced.

    The method is normalized autocorrelation at 8 kHz.

    Shapes: audio [N] in [-1, 1].
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
    first, last = int(8000 / 420), int(8000 / 55)
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
    f0: NDArray[np.float32] = np.where((mid > 0.55) & loud, 8000 / (lag + shift), 0).astype(np.float32)
    return f0


def median_f0(f0: NDArray[np.floating]) -> float:
    """Return the median of the F0 values of voiced audio, or 0 if there are fewer than four."""
    voiced = f0[f0 > 0].astype(np.float32)
    return float(np.median(voiced)) if len(voiced) > 3 else 0.0
