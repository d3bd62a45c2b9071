"""Loudness measurement and normalization (ITU-R BS.1770, EBU R 128), based on PyAV.

Audio is s16le mono at 24 kHz. The meter is FFmpeg's ebur128. Loudness is in LUFS, and peaks are true peaks in dBTP.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

import av
import av.filter
import numpy as np
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE
from runtime.shared.audio.samples import DecodedAudio, resample

LOUDNESS_RANGE_LUFS = (-40.0, -5.0)  # Minimum and maximum loudness in LUFS that a request may specify.
SILENCE_LUFS = -70.0  # Loudness in LUFS below which BS.1770 ignores audio.
CEILING_DBTP = -1.0
MAX_GAIN_DB = 30.0  # Maximum gain in dB. A higher gain would amplify the noise of nearly silent audio.

_MEASURED_SAMPLES = 10 * SAMPLE_RATE  # Number of samples that are measured at once.
_OVERSAMPLING = 4  # Oversampling factor of BS.1770 for finding peaks between samples.
# Number of samples in a block of 1 ms, in which the gain of the limiter is constant.
_BLOCK_SAMPLES = SAMPLE_RATE // 1000
_RAMP_BLOCKS = 6  # Number of blocks in which the gain changes before and after a peak.
_PASSES = 4
_LIMITED_SAMPLES = 600 * SAMPLE_RATE  # Number of samples that are limited at once.
# Number of samples by which two parts overlap. It is larger than the reach of the limiter and the resampler.
_OVERLAP_SAMPLES = 200 * _BLOCK_SAMPLES


def measure_loudness(samples: NDArray[np.int16]) -> float | None:
    """Return the gated integrated loudness of audio in LUFS.

    Returns:
        None if the audio is silent or shorter than 400 ms.

    Shapes: samples [N], mono, 24 kHz.
    """
    return measure_loudness_of_pieces(_pieces(samples))


def measure_loudness_of_pieces(pieces: Iterable[NDArray[np.int16]]) -> float | None:
    """Return the gated integrated loudness in LUFS of audio that is given in pieces.

    Returns:
        None if the audio is silent or shorter than 400 ms.

    Shapes: each piece [N], N >= 1, mono, 24 kHz.
    """
    graph = av.filter.Graph()
    graph.link_nodes(
        graph.add_abuffer(sample_rate=SAMPLE_RATE, format="s16", layout="mono", time_base=Fraction(1, SAMPLE_RATE)),
        graph.add("ebur128", "metadata=1:framelog=quiet"),
        graph.add("abuffersink"),
    ).configure()
    loudness = SILENCE_LUFS
    start = 0
    for piece in pieces:
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(piece)[None], format="s16", layout="mono")
        frame.sample_rate = SAMPLE_RATE
        frame.time_base = Fraction(1, SAMPLE_RATE)
        frame.pts = start
        start += len(piece)
        graph.push(frame)
        loudness = _last_loudness(graph, loudness)
    graph.push(None)
    loudness = _last_loudness(graph, loudness)
    return None if loudness <= SILENCE_LUFS else round(loudness, 2)


def true_peak(samples: NDArray[np.int16]) -> float:
    """Return the true peak of audio, where 1 is full scale.

    The true peak includes the values between samples.

    Shapes: samples [N], mono, 24 kHz.
    """
    return float(_block_peaks(samples, np.ones(_blocks(samples))).max(initial=0.0))


def gain_to(target_lufs: float, loudness: float | None) -> float:
    """Return the gain in dB that changes `loudness` to `target_lufs`.

    The gain has a maximum. It is 0 if the loudness is None.
    """
    return 0.0 if loudness is None else min(target_lufs - loudness, MAX_GAIN_DB)


def normalize_loudness(samples: NDArray[np.int16], target_lufs: float) -> NDArray[np.int16]:
    """Change the loudness of audio to a target and limit the peaks.

    Audio whose loudness cannot be measured is returned unchanged.

    Args:
        samples: Mono audio at 24 kHz.
        target_lufs: Integrated loudness of the result in LUFS.

    Shapes: samples [N] -> [N].
    """
    return np.concatenate([samples[:0], *normalize_loudness_in_pieces(samples, target_lufs)])


def normalize_loudness_in_pieces(samples: NDArray[np.int16], target_lufs: float) -> Iterator[NDArray[np.int16]]:
    """Yield the result of `normalize_loudness` in pieces of up to 10 s.

    The samples may be a memory-mapped file of several hours. They are read several times, because the limiter reduces
    the loudness.

    Shapes: samples [N], mono, 24 kHz.
    """
    loudness = measure_loudness(samples)
    if loudness is None:
        yield from _pieces(samples)
        return
    gain_db = gain_to(target_lufs, loudness)
    for _ in range(_PASSES):
        missing = target_lufs - (measure_loudness_of_pieces(_limited(samples, gain_db)) or target_lufs)
        if abs(missing) < 0.1 or gain_db + missing > MAX_GAIN_DB:
            break
        gain_db += missing
    yield from _limited(samples, gain_db)


def _limited(samples: NDArray[np.int16], gain_db: float) -> Iterator[NDArray[np.int16]]:
    """Yield the amplified samples with limited peaks, one section at a time.

    Hours of audio have millions of gains. Each section is limited together with a margin on both sides, so that the
    gains of adjacent sections match.
    """
    for start in range(0, len(samples), _LIMITED_SAMPLES):
        first = max(0, start - _OVERLAP_SAMPLES)
        end = min(len(samples), start + _LIMITED_SAMPLES)
        around = samples[first : end + _OVERLAP_SAMPLES]
        gains = _limited_gains(around, 10 ** (gain_db / 20), 10 ** (CEILING_DBTP / 20))
        yield from _amplified(around, gains, start - first, end - first)


def _limited_gains(samples: NDArray[np.int16], gain: float, ceiling: float) -> NDArray[np.float64]:
    """Return gains that limit every true peak and change smoothly.

    Shapes: [N] -> [blocks].
    """
    ceiling -= 2 / 32768  # The ceiling is lowered, because rounding to 16 bits may raise a peak by this amount.
    gains = np.full(_blocks(samples), gain)
    # The changing gain of the first pass may raise a peak between two samples. The second pass removes this peak.
    for _ in range(2):
        needed = np.minimum(1.0, ceiling / np.maximum(_block_peaks(samples, gains), 1e-9))
        if needed.min(initial=1.0) >= 1.0:
            break
        gains = gains * _smoothed(needed)
    if (peak := _block_peaks(samples, gains).max(initial=0.0)) > ceiling:
        gains = gains * (ceiling / peak)
    return gains


def _amplified(
    samples: NDArray[np.int16], gains: NDArray[np.float64], start: int, end: int
) -> Iterator[NDArray[np.int16]]:
    """Yield the samples from `start` to `end`, multiplied by their gains, in pieces."""
    for at in range(start, end, _MEASURED_SAMPLES):
        values = _scaled(samples, gains, at, min(end, at + _MEASURED_SAMPLES))
        yield np.round(values * 32768).clip(-32768, 32767).astype(np.int16)


def _pieces(samples: NDArray[np.int16]) -> Iterator[NDArray[np.int16]]:
    return (samples[start : start + _MEASURED_SAMPLES] for start in range(0, len(samples), _MEASURED_SAMPLES))


def _blocks(samples: NDArray[np.int16]) -> int:
    return -(-len(samples) // _BLOCK_SAMPLES)


def _scaled(samples: NDArray[np.int16], gains: NDArray[np.float64], start: int, end: int) -> NDArray[np.float32]:
    """Return the samples multiplied by their gains, in [-1, 1].

    Gains are interpolated linearly between the centers of blocks.
    """
    first = max(0, start // _BLOCK_SAMPLES - 1)
    around = gains[first : end // _BLOCK_SAMPLES + 2]
    centres = (np.arange(first, first + len(around)) + 0.5) * _BLOCK_SAMPLES - 0.5
    return (np.interp(np.arange(start, end), centres, around) * samples[start:end] / 32768).astype(np.float32)


def _smoothed(needed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return smoothed gains per block that never exceed `needed`, not even between blocks.

    Each gain is first replaced by the minimum of the surrounding gains, and then by a weighted mean of these minima. On
    each side, the mean includes one block less than the minimum.
    """
    padded = np.pad(needed, _RAMP_BLOCKS, mode="edge")
    least = np.lib.stride_tricks.sliding_window_view(padded, 2 * _RAMP_BLOCKS + 1).min(axis=1)
    # Hann window of 2 * _RAMP_BLOCKS - 1 blocks, without the zeros at both ends.
    window = np.hanning(2 * _RAMP_BLOCKS + 1)[1:-1]
    return np.convolve(np.pad(least, _RAMP_BLOCKS - 1, mode="edge"), window / window.sum(), mode="valid")


def _block_peaks(samples: NDArray[np.int16], gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the true peak of every block after its gain is applied.

    Shapes: [N], [blocks] -> [blocks].
    """
    context = 50 * _BLOCK_SAMPLES
    parts = [np.zeros(0)]
    for start in range(0, len(samples), _MEASURED_SAMPLES):
        first, end = max(0, start - context), min(len(samples), start + _MEASURED_SAMPLES)
        values = _scaled(samples, gains, first, min(len(samples), end + context))
        dense = resample(DecodedAudio(values, SAMPLE_RATE), _OVERSAMPLING * SAMPLE_RATE).samples
        dense = np.abs(dense[_OVERSAMPLING * (start - first) : _OVERSAMPLING * (end - first)])
        plain = np.abs(values[start - first : end - first])
        parts.append(np.maximum(_highest(dense, _OVERSAMPLING * _BLOCK_SAMPLES), _highest(plain, _BLOCK_SAMPLES)))
    return np.concatenate(parts)


def _highest(values: NDArray[np.float32], size: int) -> NDArray[np.float64]:
    """Return the maximum of each group of `size` values."""
    return np.pad(values, (0, -len(values) % size)).reshape(-1, size).max(axis=1).astype(np.float64)


def _last_loudness(graph: av.filter.Graph, loudness: float) -> float:
    while True:
        try:
            frame = graph.pull()
        except (av.BlockingIOError, av.EOFError):
            return loudness
        if frame is not None:
            loudness = float(frame.metadata.get("lavfi.r128.I", loudness))
