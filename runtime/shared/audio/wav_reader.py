"""Reader for uncompressed WAV: PCM of 8 to 32 bits and IEEE floats.

WAV is not decoded in a child process because starting a process takes longer than generating the first audio.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from runtime.errors import BadReferenceAudio
from runtime.shared.audio.samples import (
    UNSUPPORTED_FORMAT,
    DecodedAudio,
    Downmix,
    check_length,
    check_shape,
    mixed_down,
)

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
# Last bytes of a subformat GUID whose first bytes are a plain format code.
GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")
MAX_CHUNKS = 256  # Maximum number of chunks before the samples. Recorders write only a few chunks.
UNKNOWN_SIZES = {0, 0xFFFFFFFF}  # Values of the size field that streaming writers use for an unknown length.


@dataclass(frozen=True, slots=True)
class WavLayout:
    """Sample format, channel count and sample rate of a WAV file."""

    is_float: bool
    bits: int
    channels: int
    rate: int

    @property
    def frame_bytes(self) -> int:
        return self.bits // 8 * self.channels


def is_plain_wav(data: bytes) -> bool:
    """True if `read_wav` should read this file.

    `read_wav` may still refuse the file.
    """
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return False
    found = _format_chunk(data)
    return found is None or len(found) < 16 or _is_plain(_tag(found), int.from_bytes(found[14:16], "little"))


def read_wav(data: bytes, *, limit_s: float) -> DecodedAudio:
    """Decode a WAV file of at most `limit_s` seconds to mono.

    Raises:
        BadReferenceAudio: The header is damaged or has unsupported values.
        ReferenceTooLong: The audio is longer than the limit.
    """
    layout: WavLayout | None = None
    for name, start, size in _chunks(data):
        if name == b"fmt ":
            layout = _layout(data[start : start + size])
        elif name == b"data":
            if layout is None:
                break
            end = len(data) if size in UNKNOWN_SIZES else min(start + size, len(data))
            count = (end - start) // layout.frame_bytes
            check_length(count, layout.rate, limit_s)
            return mixed_down(partial(_read, memoryview(data)[start:], count, layout))
    raise BadReferenceAudio(why="its WAV header is damaged")


def _chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield (name, offset, declared size) of each chunk."""
    place = 12
    for _ in range(MAX_CHUNKS):
        if place + 8 > len(data):
            return
        name, size = struct.unpack_from("<4sI", data, place)
        yield name, place + 8, size
        place += 8 + size + size % 2


def _format_chunk(data: bytes) -> bytes | None:
    return next((data[start : start + size] for name, start, size in _chunks(data) if name == b"fmt "), None)


def _tag(chunk: bytes) -> int | None:
    if len(chunk) < 16:
        return PCM  # The format chunk is too short, so `read_wav` will refuse the file.
    tag = int.from_bytes(chunk[:2], "little")
    if tag == EXTENSIBLE:
        return int.from_bytes(chunk[24:26], "little") if chunk[26:40] == GUID_TAIL else None
    return tag


def _is_plain(tag: int | None, bits: int) -> bool:
    return (tag == PCM and bits in (8, 16, 24, 32)) or (tag == FLOAT and bits in (32, 64))


def _layout(chunk: bytes) -> WavLayout:
    if len(chunk) < 16:
        raise BadReferenceAudio(why="its WAV header is damaged")
    _, channels, rate, _, align, bits = struct.unpack_from("<HHIIHH", chunk)
    tag = _tag(chunk)
    layout = WavLayout(tag == FLOAT, bits, channels, rate)
    if not _is_plain(tag, bits):
        raise BadReferenceAudio(why=UNSUPPORTED_FORMAT)
    check_shape(rate, channels)
    if align != layout.frame_bytes:
        raise BadReferenceAudio(why="its WAV header is damaged")
    return layout


def _read(data: memoryview, count: int, layout: WavLayout, mix: Downmix) -> int:
    """Convert `count` samples in blocks of one second, and return the sample rate."""
    for first in range(0, count, layout.rate):
        frames = min(layout.rate, count - first)
        raw = data[first * layout.frame_bytes :][: frames * layout.frame_bytes]
        mix.append_block(_floats(raw, layout).reshape(frames, layout.channels))
    return layout.rate


def _floats(raw: memoryview, layout: WavLayout) -> NDArray[np.float32]:
    """Convert raw samples to floats with full scale 1.

    Shapes: n * channels samples in `raw` -> [n * channels].
    """
    if layout.is_float:
        # The conversion of a double to float32 may overflow. The result is then not finite.
        with np.errstate(over="ignore"):
            return np.frombuffer(raw, f"<f{layout.bits // 8}").astype(np.float32)
    if layout.bits == 8:
        return (np.frombuffer(raw, np.uint8).astype(np.float32) - 128) / np.float32(128)
    if layout.bits == 24:
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        return (wide.view("<i4")[:, 0] / 2.0**31).astype(np.float32)
    return (np.frombuffer(raw, f"<i{layout.bits // 8}") / 2.0 ** (layout.bits - 1)).astype(np.float32)
