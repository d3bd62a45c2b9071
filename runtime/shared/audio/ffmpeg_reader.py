"""Reader for all audio formats that FFmpeg (PyAV) can decode.

Only `decode_child` uses this module because untrusted files must be decoded in a separate process.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import BinaryIO, cast

import av
import numpy as np
from av.codec.codec import UnknownCodecError
from av.container import InputContainer
from numpy.typing import NDArray

from runtime.errors import BadReferenceAudio
from runtime.shared.audio.samples import (
    NO_SOUND,
    UNSUPPORTED_FORMAT,
    DecodedAudio,
    Downmix,
    check_length,
    check_shape,
    mixed_down,
)


def read_any(file: BinaryIO, *, limit_s: float) -> DecodedAudio:
    """Decode the main audio stream of a file to mono.

    As in the ``ffmpeg`` program, damaged packets are skipped, and a truncated file ends with its data. If a stream
    changes its sample rate, the first rate is used.

    Args:
        limit_s: Maximum duration of the audio in seconds.

    Raises:
        BadReferenceAudio: The file has no audio that FFmpeg can decode, or its rate or channel count is out of range.
        ReferenceTooLong: The audio is longer than the limit, regardless of the file's header.
    """
    try:
        return mixed_down(partial(_read, file, limit_s))
    except (av.FFmpegError, ValueError):
        # The original error is dropped, because its message may contain bytes of the client's file.
        raise BadReferenceAudio(why=NO_SOUND) from None


def _read(file: BinaryIO, limit_s: float, mix: Downmix) -> int:
    file.seek(0)
    with av.open(file, "r", options=OPTIONS, metadata_errors="replace") as container:
        stream = cast("av.AudioStream | None", container.streams.best("audio"))
        if stream is None:
            raise BadReferenceAudio(why=NO_SOUND)
        if not stream.codec_context:
            raise BadReferenceAudio(why=UNSUPPORTED_FORMAT)
        stream.codec_context.thread_count = 1
        _replace_custom_layout(stream.codec_context)
        rate, last = 0, None
        for frame in _frames(container, stream):
            # The values in the header may be wrong. For example, HE-AAC declares half of its real sample rate.
            check_shape(frame.sample_rate, frame.layout.nb_channels)
            rate = rate or frame.sample_rate
            if last != (last := (frame.format.name, frame.layout.name, frame.sample_rate)):
                to_floats = av.AudioResampler(format="flt", rate=rate)
            for piece in to_floats.resample(frame):
                samples = cast("NDArray[np.float32]", piece.to_ndarray())
                mix.append_block(samples.reshape(-1, piece.layout.nb_channels))
            check_length(mix.count, rate, limit_s, header_s=(container.duration or 0) / av.time_base)
    if not mix.count:
        raise BadReferenceAudio(why=NO_SOUND)
    return rate


def _frames(container: InputContainer, stream: av.AudioStream) -> Iterator[av.AudioFrame]:
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets, None)
            if packet is None:
                return
            yield from packet.decode()
        except (av.InvalidDataError, av.ArgumentError):
            continue


def _replace_custom_layout(context: av.AudioCodecContext) -> None:
    """Replace a custom channel layout in the header with the default layout.

    The default layout has the same number of channels. In PyAV 18, each AudioLayout object frees the custom layout that
    decoder and frames still use, which crashes the process. This function reads the layout only once, so it is freed
    only once. The order of channels does not matter because they are averaged.
    """
    layout = context.layout
    channels = layout.nb_channels
    if layout.name.startswith(f"{channels} channels ("):
        check_shape(context.sample_rate, channels)
        context.layout = f"{channels}c"


def _is_audio(name: str) -> bool:
    try:
        return av.Codec(name, "r").type == "audio"
    except UnknownCodecError:  # FFmpeg knows the codec, but can only encode it.
        return False


# Options of FFmpeg that disable protocols, because playlists (HLS, DASH, concat) refer to other files and URLs. They
# also disable video decoders.
OPTIONS = {"protocol_whitelist": "none", "codec_whitelist": ",".join(filter(_is_audio, av.codecs_available))}
