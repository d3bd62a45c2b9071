"""Reads sound files into plain samples and resamples them, by libsndfile (soundfile) and soxr.

Nothing is decoded before the header has been read and accepted, and no more than the limit is ever
decoded: 10 MB of FLAC can hold 25 GB of silence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import BinaryIO, cast

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from runtime.errors import BadReferenceAudio, ReferenceTooLong

# libsndfile knows some 25 containers; each one less is attack surface less.
FORMATS = frozenset({"WAV", "WAVEX", "RF64", "FLAC", "OGG", "MP3", "AIFF"})
SUBTYPES = frozenset(
    {"PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"}
    | {"VORBIS", "OPUS", "MPEG_LAYER_III"}
)
TAKEN = "WAV, FLAC, OGG, MP3, M4A or AIFF"  # of all readers: this one's, wav_reader's and mp4_reader's
NO_SOUND = f"it is not a sound file that can be read; send {TAKEN}"
FORMAT_NOT_TAKEN = f"its format is not taken; send {TAKEN}"
MIN_RATE, MAX_RATE = 8_000, 192_000  # Hz
MAX_CHANNELS = 8


@dataclass(frozen=True, slots=True)
class Sound:
    """Decoded audio.

    Shapes: samples [N] float32, mono.
    """

    samples: NDArray[np.float32]
    rate: int

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


def read_sound(file: BinaryIO | int, *, limit_s: float) -> Sound:
    """Decode a sound file of at most ``limit_s`` seconds and mix it down to one channel.

    Mono input is returned exactly as libsndfile reads it into float32.

    Raises:
        BadReferenceAudio: it is no sound file, or one of a format, rate or channel count that is not taken.
        ReferenceTooLong: the header says so, or the samples do.
    """
    try:
        with soundfile.SoundFile(file, closefd=False) as sound:
            _check_header(sound)
            if sound.frames > limit_s * sound.samplerate:
                raise ReferenceTooLong(seconds=sound.frames / sound.samplerate, limit=limit_s)
            samples, rate = _read_mono(sound, limit_s), sound.samplerate
    except soundfile.LibsndfileError:
        # From None: libsndfile's text may quote the file's name or the client's bytes.
        raise BadReferenceAudio(why=NO_SOUND) from None
    if len(samples) > limit_s * rate:
        raise ReferenceTooLong(seconds=len(samples) / rate, limit=limit_s)
    return Sound(samples, rate)


def read_pcm(file: BinaryIO | str) -> bytes:
    """The samples of a 16-bit mono file of our own, as s16le, bit for bit.

    Raises:
        BadReferenceAudio: it is damaged.
        OSError: it cannot be read.
    """
    try:
        samples, _ = soundfile.read(file, dtype="int16")
    except soundfile.LibsndfileError:
        raise BadReferenceAudio(why="it is damaged") from None
    return cast("NDArray[np.int16]", samples).astype("<i2", copy=False).tobytes()


def check_shape(rate: int, channels: int) -> None:
    """Refuse what no microphone makes.

    Raises:
        BadReferenceAudio: too few or too many samples a second, no channel or too many.
    """
    if not MIN_RATE <= rate <= MAX_RATE:
        raise BadReferenceAudio(why=f"its sample rate is {rate} Hz; {MIN_RATE} to {MAX_RATE} Hz are taken")
    if not 1 <= channels <= MAX_CHANNELS:
        raise BadReferenceAudio(why=f"it has {channels} channels; at most {MAX_CHANNELS} are taken")


def resample(sound: Sound, rate: int) -> Sound:
    """Return the sound at another rate, or the very same object where the rate is right already.

    It is as long as librosa makes it for the reference implementation, by the same product of floats: a sample more
    or less at the end can be a codec frame more or less of a voice.
    """
    if sound.rate == rate:
        return sound
    samples = soxr.resample(sound.samples, sound.rate, rate, quality="HQ")
    length = math.ceil(len(sound.samples) * (rate / sound.rate))
    missing = max(0, length - len(samples))
    return Sound(np.pad(samples[:length], (0, missing)).astype(np.float32, copy=False), rate)


def _check_header(sound: soundfile.SoundFile) -> None:
    if sound.format not in FORMATS or sound.subtype not in SUBTYPES:
        raise BadReferenceAudio(why=FORMAT_NOT_TAKEN)
    check_shape(sound.samplerate, sound.channels)


def _read_mono(sound: soundfile.SoundFile, limit_s: float) -> NDArray[np.float32]:
    """Read second by second, so that eight channels never lie in memory at full length."""
    second, left = sound.samplerate, int(limit_s * sound.samplerate) + 1
    parts: list[NDArray[np.float32]] = []
    while left > 0:
        block = sound.read(min(second, left), dtype="float32", always_2d=True)
        if not len(block):
            break
        parts.append(block[:, 0] if sound.channels == 1 else block.mean(axis=1, dtype=np.float32))
        left -= len(block)
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)
