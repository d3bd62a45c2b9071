"""Decoded audio: length limits, downmix to mono, and resampling with soxr."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, cast

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from runtime.errors import BadReferenceAudio, ReferenceTooLong

# Formats that error messages name. Every format that FFmpeg can decode is accepted.
SUPPORTED_FORMATS = "WAV, FLAC, OGG, MP3, M4A, AIFF or WebM"
NO_SOUND = f"it is not a readable audio file; send {SUPPORTED_FORMATS}"
UNSUPPORTED_FORMAT = f"its format is not supported; send {SUPPORTED_FORMATS}"
MIN_RATE, MAX_RATE = 8_000, 192_000  # Minimum and maximum sample rate in Hz.
MAX_CHANNELS = 8
PADDING_S = 0.1  # Seconds of silence that lossy codecs may add at both ends. Resampling may also add a sample.
# Minimum energy of the mixed channels, as a fraction of the energy that a mix of independent channels would have. With
# less energy, the channels cancel each other out.
MIN_MIX = 0.1


@dataclass(frozen=True, slots=True)
class DecodedAudio:
    """Decoded audio with its sample rate.

    Shapes: samples [N] float32, mono.
    """

    samples: NDArray[np.float32]
    rate: int

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


@dataclass(slots=True)
class Downmix:
    """Downmix of multi-channel audio to mono, one block of samples at a time.

    The result is the mean of all channels, or one selected channel. Blocks save memory, because the complete audio of
    all channels is never in memory.
    """

    channel: int | None = None
    count: int = 0  # Number of samples that were read.
    _blocks: list[NDArray[np.float32]] = field(default_factory=list)
    _energies: NDArray[np.float64] = field(default_factory=lambda: np.zeros(MAX_CHANNELS))
    _mixed: float = 0.0  # Energy of the mean of all channels.
    _expected: float = 0.0  # Energy that the mean would have if the channels were independent.

    def append_block(self, block: NDArray[np.float32]) -> None:
        """Mix the next block of samples to mono.

        Shapes: block [N, channels].
        """
        channels = block.shape[1]
        if channels == 1:
            mono = block[:, 0]
        elif self.channel is not None:
            mono = block[:, min(self.channel, channels - 1)]
        else:
            mono = block.mean(axis=1, dtype=np.float32)
            with np.errstate(over="ignore", invalid="ignore"):  # Samples that are not finite are refused later.
                energies = np.einsum("ij,ij->j", block, block, dtype=np.float64)
                self._energies[:channels] += energies
                self._expected += float(energies.sum()) / channels**2
                self._mixed += float(np.dot(mono, mono))
        self._blocks.append(mono)
        self.count += len(mono)

    @property
    def samples(self) -> NDArray[np.float32]:
        """Return all samples that were added, mixed to mono.

        Shapes: [N] float32.
        """
        return np.concatenate(self._blocks) if self._blocks else np.zeros(0, np.float32)

    @property
    def loudest_if_cancelled(self) -> int | None:
        """Return the index of the loudest channel if the channels cancel each other out.

        This happens in phase-inverted stereo. The result is None for other audio.
        """
        is_cancelled = self._mixed < MIN_MIX * self._expected
        return int(self._energies.argmax()) if is_cancelled else None


def mixed_down(read: Callable[[Downmix], int]) -> DecodedAudio:
    """Decode a file and mix its channels down to mono.

    If the channels cancel each other out, the file is decoded again, and only its loudest channel is used.

    Args:
        read: Function that decodes the file, adds all its samples to the downmix and returns the sample rate in Hz.
    """
    mix = Downmix()
    rate = read(mix)
    if (channel := mix.loudest_if_cancelled) is not None:
        mix = Downmix(channel)
        rate = read(mix)
    return DecodedAudio(mix.samples, rate)


def read_pcm(file: BinaryIO | str) -> bytes:
    """Return the samples of a 16-bit mono audio file that this program has written.

    The result is s16le without conversion.

    Raises:
        BadReferenceAudio: The file is damaged.
        OSError: The file cannot be read.
    """
    try:
        samples, _ = soundfile.read(file, dtype="int16")
    except soundfile.LibsndfileError:
        raise BadReferenceAudio(why="it is damaged") from None
    return cast("NDArray[np.int16]", samples).astype("<i2", copy=False).tobytes()


def check_shape(rate: int, channels: int) -> None:
    """Check that the sample rate and the number of channels are supported.

    Raises:
        BadReferenceAudio: The rate or the number of channels is out of range.
    """
    if not MIN_RATE <= rate <= MAX_RATE:
        raise BadReferenceAudio(why=f"its sample rate is {rate} Hz; {MIN_RATE} to {MAX_RATE} Hz are supported")
    if not 1 <= channels <= MAX_CHANNELS:
        raise BadReferenceAudio(why=f"it has {channels} channels; at most {MAX_CHANNELS} are supported")


def check_length(count: int, rate: int, limit_s: float, *, header_s: float = 0.0) -> None:
    """Check that the audio is not longer than `limit_s` seconds plus codec padding.

    Args:
        header_s: Duration in the file's header, for the error message only.

    Raises:
        ReferenceTooLong: The audio is longer.
    """
    if count > (limit_s + PADDING_S) * rate:
        raise ReferenceTooLong(seconds=max(count / rate, header_s), limit=limit_s)


def resample(audio: DecodedAudio, rate: int) -> DecodedAudio:
    """Resample audio to another sample rate in Hz.

    Audio that already has this rate is returned unchanged. The output length is computed as in librosa, which the
    reference implementation uses. One more sample could change the number of codec frames.
    """
    if audio.rate == rate:
        return audio
    samples = soxr.resample(audio.samples, audio.rate, rate, quality="HQ")
    length = math.ceil(len(audio.samples) * (rate / audio.rate))
    missing = max(0, length - len(samples))
    return DecodedAudio(np.pad(samples[:length], (0, missing)).astype(np.float32, copy=False), rate)
