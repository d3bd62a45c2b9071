"""Decoding of untrusted reference audio to samples for the networks, within limits.

Decoding can take a second of CPU time, so it must not run on the event loop.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from runtime.errors import BadReferenceAudio, MessageTooLarge, ReferenceTooShort
from runtime.request import SAMPLE_RATE
from runtime.settings import Limits
from runtime.shared.audio.decoding import decode
from runtime.shared.audio.samples import resample

# Peak amplitude below which a recording counts as silent (-60 dBFS), for example because the microphone was muted.
SILENCE = 1e-3
# Maximum size in bytes of a local file of the operator: one minute in the largest format.
MAX_LOCAL_FILE_BYTES = 512 * 2**20
# Maximum peak of a recording. Float files may exceed full scale, but a peak above +12 dB suggests that the samples have
# another unit.
MAX_PEAK = 4.0


def read_reference(data: bytes, limits: Limits) -> NDArray[np.float32]:
    """Decode reference audio that a client has sent.

    Shapes: [N] float32, mono, 24 kHz. Mono input at 24 kHz is unchanged.

    Raises:
        MessageTooLarge: The data has more than `Limits.max_upload_bytes` bytes.
        BadReferenceAudio: The data is not audio, is silent, has invalid values, or its format is not supported.
        ReferenceTooShort, ReferenceTooLong: The duration is out of range.
    """
    if len(data) > limits.max_upload_bytes:
        raise MessageTooLarge(what="The recording", size=len(data), limit=limits.max_upload_bytes)
    return _decode(data, limits)


def _decode(data: bytes, limits: Limits) -> NDArray[np.float32]:
    decoded = decode(data, limit_s=limits.max_reference_s)
    if not np.isfinite(decoded.samples).all():
        raise BadReferenceAudio(why="it holds samples that are not finite numbers")
    if not len(decoded.samples) or decoded.seconds < limits.min_reference_s:
        raise ReferenceTooShort(seconds=decoded.seconds, limit=limits.min_reference_s)
    peak = float(np.abs(decoded.samples).max())
    if peak < SILENCE:
        raise BadReferenceAudio(why="it is silent")
    if peak > MAX_PEAK:
        raise BadReferenceAudio(why="its samples are far outside -1 to 1")
    if float(np.ptp(decoded.samples)) < 2 * SILENCE:
        raise BadReferenceAudio(why="it holds one constant value and no audio")
    return resample(decoded, SAMPLE_RATE).samples[: int(limits.max_reference_s * SAMPLE_RATE)]


def load_reference(path: Path, limits: Limits) -> NDArray[np.float32]:
    """Decode an operator's file like `read_reference`, but with a larger size limit."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_LOCAL_FILE_BYTES + 1)
    except OSError as error:
        raise BadReferenceAudio(why=f"the file cannot be opened ({error.strerror})") from None
    if len(data) > MAX_LOCAL_FILE_BYTES:
        raise BadReferenceAudio(why=f"the file is larger than {MAX_LOCAL_FILE_BYTES // 2**20} MB")
    return _decode(data, limits)
