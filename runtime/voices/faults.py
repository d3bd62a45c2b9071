"""Detection of clipping and of room echo in a recording, from its samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE

# Number of bins of the histogram in which clipping is found. A recording may be made quieter, resampled or compressed
# after it was clipped, so clipping is searched at all levels. The histogram of the samples of one sign falls towards
# the peak. In a clipped recording, it rises again at the level of the clipping.
HISTOGRAM_BINS = 40
# Possible widths of the histogram's rise in bins. A codec spreads the rise over several bins.
RISE_BINS = (1, 2, 4)
MIN_RISE_SHARE = 2e-4  # Minimum number of samples in the histogram's rise, as a fraction of all samples.
# Minimum ratio between the number of samples in the histogram's rise and the number in a range of the same width below
# the rise. A limiter causes a ratio of at most 1.9.
MIN_RISE = 2.2
# Minimum of this ratio for a recording with flat peaks (MIN_FLATNESS), such as a clipped recording after a lossy codec.
MIN_FLAT_RISE = 1.3
FLATNESS_LEVEL = 0.8
# Minimum flatness of clipped peaks. Flatness is the time above FLATNESS_LEVEL times the maximum, divided by the time
# above half of the maximum. A sine has a flatness of 0.61.
MIN_FLATNESS = 0.69

# Time in which the decay of the level is measured to find echo. The silence in a stop consonant starts within this
# time, unless an echo fills it.
DECAY_S = 0.08
STEP_S, FRAME_S = 0.01, 0.02
BANDS, LOWEST_HZ, HIGHEST_HZ = 12, 300.0, 6_000.0
LOUD_DB = 15.0  # Maximum difference in dB between the loud frames and a frame from which the decay is measured.
# Minimum difference in dB between the loud frames and the noise in a band. In bands with a smaller difference, the
# noise hides the decay.
MIN_RANGE_DB = 25.0
MIN_MEASURED_BANDS = 3


def is_clipped_at_any_level(samples: NDArray[np.float32]) -> bool:
    """True if the peaks of a recording of speech are cut off at some level.

    Shapes: samples [N] float32, mono, 24 kHz.
    """
    centred = samples - samples.mean()
    return _has_level_limit(centred) or _has_level_limit(-centred)


def level_decay_db(samples: NDArray[np.float32]) -> float | None:
    """Return how far the level of speech falls within 80 ms in its fastest decays, in dB.

    Speech close to a microphone falls by more than 20 dB, and speech with a loud echo by less than 15 dB. The
    result is None if noise hides the decay, or if the recording is too short.

    Shapes: samples [N] float32, mono, 24 kHz.
    """
    levels = _band_levels(samples)
    steps = round(DECAY_S / STEP_S)
    if len(levels) < 2 * steps:
        return None
    loud, quiet = np.quantile(levels, 0.9, axis=0), np.quantile(levels, 0.02, axis=0)
    falls = np.where(levels > loud - LOUD_DB, levels - np.roll(levels, -steps, axis=0), np.nan)[:-steps]
    measured = loud - quiet > MIN_RANGE_DB
    if measured.sum() < MIN_MEASURED_BANDS:
        return None
    falls = falls[:, measured & ~np.isnan(falls).all(axis=0)]
    return float(np.median(np.nanquantile(falls, 0.95, axis=0))) if falls.size else None


def _has_level_limit(samples: NDArray[np.float32]) -> bool:
    """True if the positive peaks of the samples are cut off."""
    highest = np.partition(samples, -4)[-4]  # Three samples may exceed the level of the clipping.
    counts, _ = np.histogram(samples, bins=HISTOGRAM_BINS, range=(0, max(highest, 1e-6)))
    below = np.concatenate([[0], np.cumsum(counts)])
    rise = 0.0
    for width in RISE_BINS:
        ends = np.arange(HISTOGRAM_BINS // 2, HISTOGRAM_BINS + 1)
        upper = below[ends] - below[ends - width]
        lower = below[ends - width - 1] - below[ends - 2 * width - 1]
        ratios = (upper + 1) / (lower + 1) * (upper > MIN_RISE_SHARE * len(samples))
        rise = max(rise, float(ratios.max()))
    return rise > MIN_RISE or (rise > MIN_FLAT_RISE and _flatness(samples) > MIN_FLATNESS)


def _flatness(samples: NDArray[np.float32]) -> float:
    """Return the fraction of the duration of the highest peaks that is near their maximum."""
    highest = np.quantile(samples, 0.9995)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], samples > highest / 2, [False]]).astype(np.int8)))
    peaks = [samples[start:end] for start, end in edges.reshape(-1, 2) if end - start >= 4]
    tall = [peak for peak in peaks if peak.max() >= FLATNESS_LEVEL * highest]
    near = sum(int((peak > FLATNESS_LEVEL * min(peak.max(), highest)).sum()) for peak in tall)
    return near / max(1, sum(map(len, tall)))


def _band_levels(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the level in dB of each frame in bands of equal width on the mel scale.

    Shapes: [N] -> [frames, BANDS].
    """
    size, step = round(FRAME_S * SAMPLE_RATE), round(STEP_S * SAMPLE_RATE)
    if len(samples) < size:
        return np.zeros((0, BANDS), np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(samples, size)[::step]
    power = np.abs(np.fft.rfft(frames * np.hanning(size), axis=1)) ** 2
    mel = np.log1p(np.fft.rfftfreq(size, 1 / SAMPLE_RATE) / 700)
    starts = np.searchsorted(mel, np.linspace(np.log1p(LOWEST_HZ / 700), np.log1p(HIGHEST_HZ / 700), BANDS + 1))
    sums = np.add.reduceat(power, starts, axis=1)[:, :-1]
    return (10 * np.log10(sums + 1e-9)).astype(np.float32)
