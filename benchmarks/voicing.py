"""How much of a sound is voice, noise, silence and clipping: figures of 16-bit PCM alone.

The harmonics-to-noise ratio is Boersma's: "Accurate short-term analysis of the fundamental frequency and the
harmonics-to-noise ratio of a sampled sound", IFA Proceedings 17 (1993).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE

LOWEST_HZ, HIGHEST_HZ = 75.0, 500.0  # of a voice's pitch
WINDOW_S = 4.5 / LOWEST_HZ  # Boersma's window: four and a half periods of the lowest pitch
STEP_S = 0.01
VOICED = 0.45  # correlation at the pitch's lag from which a window counts as voice
SILENT_DB = -50.0  # of full scale, over a window
FULL = 32767


@dataclass(frozen=True, slots=True)
class Voicing:
    """Figures of one sound; shares are of 0 to 1."""

    seconds: float
    peak: float  # of full scale
    clipped: float  # share of samples at full scale
    silent: float  # share of windows under SILENT_DB
    voiced: float  # share of the windows that are not silent
    harmonics_db: float  # median harmonics-to-noise ratio of voiced windows; nan: there is none
    offset: float  # mean, of full scale


def voicing(pcm: NDArray[np.int16]) -> Voicing:
    """Measure a sound. Shapes: [N] int16, mono, 24 kHz.

    Raises:
        ValueError: it is shorter than one window (60 ms).
    """
    samples = pcm.astype(np.float64) / FULL
    size = round(WINDOW_S * SAMPLE_RATE)
    if len(samples) < size:
        raise ValueError(f"a sound of {len(samples)} samples is shorter than one window of {size}")
    windows = np.lib.stride_tricks.sliding_window_view(samples, size)[:: round(STEP_S * SAMPLE_RATE)]
    power = np.square(windows).mean(axis=1)
    is_silent = 10 * np.log10(np.maximum(power, 1e-12)) < SILENT_DB
    correlation = _pitch_correlation(windows[~is_silent])
    voiced = correlation[correlation > VOICED]
    ratio = 10 * np.log10(voiced / np.maximum(1 - voiced, 1e-6))
    return Voicing(
        seconds=len(samples) / SAMPLE_RATE,
        peak=float(np.abs(samples).max()),
        clipped=float((np.abs(pcm.astype(np.int32)) >= FULL).mean()),
        silent=float(is_silent.mean()),
        voiced=len(voiced) / max(1, len(correlation)),
        harmonics_db=float(np.median(ratio)) if len(ratio) else float("nan"),
        offset=float(samples.mean()),
    )


def _pitch_correlation(windows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The highest autocorrelation in the range of pitch, that of the window divided out.

    Shapes: windows [n, w]; result [n] of 0 to 1.
    """
    size = windows.shape[1]
    hann = np.hanning(size)
    centred = (windows - windows.mean(axis=1, keepdims=True)) * hann
    length = 2 ** int(np.ceil(np.log2(1.5 * size)))
    lags = slice(int(SAMPLE_RATE / HIGHEST_HZ) - 1, int(SAMPLE_RATE / LOWEST_HZ) + 2)
    found = _autocorrelation(centred, length)[:, lags] / _autocorrelation(hann[None], length)[:, lags]
    # The true peak lies between samples: a parabola through the three highest.
    middle = found[:, 1:-1].argmax(axis=1) + 1
    row = np.arange(len(found))
    before, at, after = found[row, middle - 1], found[row, middle], found[row, middle + 1]
    bend = before - 2 * at + after
    peak = at - np.square(after - before) / np.where(bend < 0, 8 * bend, -np.inf)
    return np.clip(peak, 0, 1)


def _autocorrelation(windows: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Of 1 at lag 0. Shapes: [n, w] to [n, length]."""
    power = np.square(np.abs(np.fft.rfft(windows, length, axis=1)))
    found = np.fft.irfft(power, length, axis=1)
    return found / np.maximum(found[:, :1], 1e-12)
