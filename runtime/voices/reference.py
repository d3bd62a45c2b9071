"""Bounded intake of reference audio: a file of anybody's making in, samples that a network may see out.

Knows no sockets and no checkpoints. The worst file that is let in takes a second of CPU, so none of this
runs on the event loop.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from runtime.audio import read_sound, resample
from runtime.errors import BadReferenceAudio, ReferenceTooShort
from runtime.request import SAMPLE_RATE
from runtime.settings import Limits

FRAME_S = 0.01  # grid on which speech is told from silence
QUIET = 1e-2  # of the loudest frame: -40 dB, under any spoken consonant in a usable recording
MARGIN_S = 0.1  # kept around the speech: onsets and decays lie below QUIET
PAUSE_S = 0.5  # appended silence, so that the clone does not begin in the middle of the reference's last sound
SILENCE = 1e-3  # peak below -60 dBFS: a muted microphone, nothing to clone
LOUDEST = 4.0  # float files may pass full scale a little; 12 dB over it the file is scaled in another unit


def read_reference(data: bytes, limits: Limits) -> NDArray[np.float32]:
    """Decode reference audio that a client sent.

    Shapes: [N] float32, mono, 24 kHz. Mono 24 kHz input passes through bit for bit.
    Raises:
        BadReferenceAudio: not audio, silent, not finite, or of a kind that is not taken.
        ReferenceTooShort, ReferenceTooLong: outside the limits.
    """
    return _read(_Upload(data), limits)


def load_reference(path: Path, limits: Limits) -> NDArray[np.float32]:
    """Decode reference audio from a file that the operator named; otherwise as `read_reference`."""
    try:
        with path.open("rb") as file:
            # By descriptor: soundfile then judges by content and not by the name's ending.
            return _read(file.fileno(), limits)
    except OSError as error:
        raise BadReferenceAudio(why=f"the file cannot be opened ({error.strerror})") from None


def clean_reference(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cut the silence around the speech and end on a pause.

    Shapes: samples [N] -> [M], float32, mono, 24 kHz.
    """
    step = int(FRAME_S * SAMPLE_RATE)
    frames = samples[: len(samples) // step * step].reshape(-1, step)
    loudness = np.sqrt((frames**2).mean(axis=1))
    spoken = np.flatnonzero(loudness > QUIET * loudness.max(initial=0.0))
    pause = np.zeros(int(PAUSE_S * SAMPLE_RATE), np.float32)
    if not len(spoken):
        return np.concatenate([samples, pause])
    margin = int(MARGIN_S * SAMPLE_RATE)
    start, end = max(0, spoken[0] * step - margin), (spoken[-1] + 1) * step + margin
    return np.concatenate([samples[start:end], pause])


class _Upload(io.BytesIO):
    """Bytes in which damaged headers may send libsndfile anywhere without a traceback on stderr."""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        try:
            return super().seek(offset, whence)
        except (ValueError, OverflowError):
            return self.tell()


def _read(file: BinaryIO | int, limits: Limits) -> NDArray[np.float32]:
    sound = read_sound(file, limit_s=limits.max_reference_s)
    if not np.isfinite(sound.samples).all():
        raise BadReferenceAudio(why="it holds samples that are not finite numbers")
    if not len(sound.samples) or sound.seconds < limits.min_reference_s:
        raise ReferenceTooShort(seconds=sound.seconds, limit=limits.min_reference_s)
    peak = float(np.abs(sound.samples).max())
    if peak < SILENCE:
        raise BadReferenceAudio(why="it is silent")
    if peak > LOUDEST:
        raise BadReferenceAudio(why="its samples lie far outside -1 to 1")
    return resample(sound, SAMPLE_RATE).samples
