"""Reads M4A, which is how phones keep what they record: AAC or ALAC in an MP4 file, by FFmpeg (PyAV).

Only in the process of `decode_child`: FFmpeg's demuxer and decoders are as much exposed there as libsndfile.
"""

from __future__ import annotations

from typing import BinaryIO

import av
import numpy as np
from av.container import InputContainer
from numpy.typing import NDArray

from runtime.errors import BadReferenceAudio, ReferenceTooLong
from runtime.shared.audio import FORMAT_NOT_TAKEN, NO_SOUND, Sound, check_shape

CODECS = frozenset({"aac", "alac"})


def read_mp4(file: BinaryIO, *, limit_s: float) -> Sound:
    """Decode the first sound of an MP4 file, of at most ``limit_s`` seconds, and mix it down to one channel.

    Raises:
        BadReferenceAudio: there is none, or it is damaged or of a codec, rate or channel count that is not taken.
        ReferenceTooLong: the header says so, or the samples do.
    """
    try:
        with av.open(file, "r", format="mp4") as container:
            if not container.streams.audio:
                raise BadReferenceAudio(why=NO_SOUND)
            return _read(container, container.streams.audio[0], limit_s)
    except (av.FFmpegError, ValueError):
        raise BadReferenceAudio(why=NO_SOUND) from None  # FFmpeg's text may quote the client's bytes


def _read(container: InputContainer, stream: av.AudioStream, limit_s: float) -> Sound:
    if not stream.codec_context or stream.codec_context.name not in CODECS:
        raise BadReferenceAudio(why=FORMAT_NOT_TAKEN)
    check_shape(stream.rate, stream.channels)
    if stream.duration is not None and stream.time_base is not None:
        seconds = float(stream.duration * stream.time_base)
        if seconds > limit_s:
            raise ReferenceTooLong(seconds=seconds, limit=limit_s)
    parts: list[NDArray[np.float32]] = []
    rate = count = 0
    to_floats = av.AudioResampler(format="fltp")  # format alone: rate and channels stay as they are
    for frame in container.decode(stream):
        rate = rate or frame.sample_rate  # which the header may not know: HE-AAC says half of it
        check_shape(frame.sample_rate, frame.layout.nb_channels)
        if frame.sample_rate != rate:
            raise BadReferenceAudio(why=FORMAT_NOT_TAKEN)
        for piece in to_floats.resample(frame):
            parts.append(_mono(np.asarray(piece.to_ndarray(), np.float32)))
            count += len(parts[-1])
        if count > limit_s * rate:
            raise ReferenceTooLong(seconds=count / rate, limit=limit_s)
    return Sound(np.concatenate(parts) if parts else np.zeros(0, np.float32), rate or stream.rate)


def _mono(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Shapes: [channels, N] -> [N]."""
    return samples[0] if len(samples) == 1 else samples.mean(axis=0, dtype=np.float32)
