"""Streaming conversion of PCM to telephony formats with any sample rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import soxr
from numpy.typing import NDArray

from runtime.request import SAMPLE_RATE

MIN_RATE, MAX_RATE = 8_000, 48_000  # Minimum and maximum sample rate in Hz.

Samples = NDArray[np.float32]


class AudioWriter(Protocol):
    """Interface of an encoder of one audio stream.

    The concatenated return values are the encoded stream.
    """

    def encode_pcm(self, pcm: bytes) -> bytes:
        """Encode s16le samples at 24 kHz and return the bytes that are ready, or ``b""``."""
        ...

    def finish(self) -> bytes:
        """End the encoded stream and return the remaining bytes."""
        ...


class PcmWriter:
    """Converter of one audio stream from s16le at 24 kHz to another encoding or sample rate.

    For pcm_s16le at 24 kHz, the data is unchanged.

    Raises:
        KeyError: The encoding is not a key of ``ENCODINGS``.
    """

    def __init__(self, encoding: str, rate: int) -> None:
        self._encode = ENCODINGS[encoding]
        self._is_native = encoding == "pcm_s16le" and rate == SAMPLE_RATE
        self._resampler = (
            None if rate == SAMPLE_RATE else soxr.ResampleStream(SAMPLE_RATE, rate, 1, dtype="float32", quality="HQ")
        )

    def encode_pcm(self, pcm: bytes) -> bytes:
        """Convert s16le samples at 24 kHz and return the converted bytes that are ready."""
        if self._is_native:
            return pcm
        samples: Samples = np.divide(np.frombuffer(pcm, "<i2"), 32768, dtype=np.float32)
        if self._resampler is not None:
            samples = np.asarray(self._resampler.resample_chunk(samples), np.float32)
        return self._encode(samples)

    def finish(self) -> bytes:
        """End the stream and return the bytes that were held back by the resampler.

        They contain at most a few milliseconds of audio.
        """
        if self._resampler is None:
            return b""
        rest = self._resampler.resample_chunk(np.empty(0, np.float32), last=True)
        return self._encode(np.asarray(rest, np.float32))


def _s16(samples: Samples) -> NDArray[np.int16]:
    return np.clip(np.rint(samples * 32768), -32768, 32767).astype("<i2")


def _mu_law(samples: Samples) -> bytes:
    """Encode samples as G.711 mu-law."""
    wide = _s16(samples).astype(np.int32) >> 2
    magnitude = np.minimum(np.where(wide < 0, -wide, wide), 8158) + 33
    segment = np.frexp(magnitude)[1] - 6  # Magnitudes from 33 to 8191 have 6 to 13 bits.
    coded = segment << 4 | (magnitude >> (segment + 1)) & 15
    return (coded ^ np.where(wide < 0, 0x7F, 0xFF)).astype(np.uint8).tobytes()


def _a_law(samples: Samples) -> bytes:
    """Encode samples as G.711 A-law.

    A code has a sign, the segment (highest bit of 12) and the four bits below this bit. Its even bits are inverted.
    """
    wide = _s16(samples).astype(np.int32) >> 3
    magnitude = np.where(wide < 0, ~wide, wide)
    segment = np.maximum(np.frexp(magnitude)[1] - 5, 0)  # The code is linear for the lowest 32 values.
    coded = segment << 4 | (magnitude >> np.maximum(segment, 1)) & 15
    return (coded ^ np.where(wide < 0, 0x55, 0xD5)).astype(np.uint8).tobytes()


ENCODINGS: dict[str, Callable[[Samples], bytes]] = {
    "pcm_s16le": lambda samples: _s16(samples).tobytes(),
    "pcm_f32le": lambda samples: samples.astype("<f4").tobytes(),
    "pcm_mulaw": _mu_law,
    "pcm_alaw": _a_law,
}
