"""Chapters, cover and tags of audiobook files, written with PyAV.

Covers are copied without being decoded.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import av
import av.container
import av.stream

# Codec of a cover image, by the first bytes of the image.
COVER_CODECS = {b"\xff\xd8\xff": "mjpeg", b"\x89PNG\r\n\x1a\n": "png"}

# Maximum size of a cover in bytes. Encoded in base64, the cover must fit into a book script together with the other
# fields.
MAX_COVER_BYTES = 640 * 2**10

_URL_PREFIXES = ("data:image/jpeg;base64,", "data:image/png;base64,")
_READERS = {b"\xff\xd8\xff": "jpeg_pipe", b"\x89PNG\r\n\x1a\n": "png_pipe", b"GIF8": "gif", b"RIFF": "webp_pipe"}
_MAX_SIDE = 1200  # Maximum width and height of a cover in pixels.
_MAX_PIXELS = 64_000_000
_MS = Fraction(1, 1000)
_TAGS_IN_MP4 = {"title", "artist", "album_artist", "album", "track", "composer", "genre", "date", "comment"}


@dataclass(frozen=True, slots=True)
class BookChapter:
    """Chapter of an audiobook, with start and end in seconds."""

    title: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Book:
    """Chapters and cover of an audiobook, where the cover is a JPEG or PNG file."""

    chapters: Sequence[BookChapter] = ()
    cover: bytes | None = field(default=None, repr=False)


def cover_codec(image: bytes) -> str | None:
    """Return the codec of an image that can be a cover, or None for other files."""
    return next((codec for magic, codec in COVER_CODECS.items() if image.startswith(magic)), None)


def read_cover(url: str) -> bytes | None:
    """Decode the cover image in a data URL.

    Return None if the image is too large or is neither a JPEG nor a PNG file.
    """
    prefix = next((prefix for prefix in _URL_PREFIXES if url.startswith(prefix)), None)
    if prefix is None or len(url) > len(prefix) + 4 * (MAX_COVER_BYTES // 3 + 1):
        return None
    try:
        image = base64.b64decode(url[len(prefix) :], validate=True)
    except (binascii.Error, ValueError):
        return None
    return image if cover_codec(image) is not None else None


def cover_url(image: bytes) -> str:
    """Encode a cover image as a data URL."""
    kind = "jpeg" if cover_codec(image) == "mjpeg" else "png"
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


def cover_of(image: bytes) -> str:
    """Convert any image to a cover and return it as a data URL.

    A large image is scaled down. The result is empty if the image cannot be decoded. Decoding an untrusted image is
    risky, so call this function in a process with resource limits.
    """
    if cover_codec(image) is not None and len(image) <= MAX_COVER_BYTES:
        return cover_url(image)
    try:
        smaller = _smaller(image)
    except (av.FFmpegError, ValueError):
        return ""
    return cover_url(smaller) if len(smaller) <= MAX_COVER_BYTES else ""


def _smaller(image: bytes) -> bytes:
    """Return an image as a JPEG of at most `_MAX_SIDE` pixels in width and height.

    Raises:
        av.FFmpegError, ValueError: The data is not an image, or the image has too many pixels.
    """
    # The demuxer is selected here. If FFmpeg selected it, a manipulated file could make FFmpeg open other files.
    reader = next((reader for magic, reader in _READERS.items() if image.startswith(magic)), None)
    if reader is None:
        raise ValueError("no picture")
    with av.open(io.BytesIO(image), "r", format=reader) as source:
        context = source.streams.video[0].codec_context
        if context is None or not 0 < context.width * context.height <= _MAX_PIXELS:
            raise ValueError("no size, or too many pixels")
        frame = next(source.decode(video=0), None)
    if frame is None:
        raise ValueError("no picture")
    scale = min(1.0, _MAX_SIDE / max(frame.width, frame.height))
    width, height = (max(2, round(side * scale / 2) * 2) for side in (frame.width, frame.height))
    file = io.BytesIO()
    with av.open(file, "w", format="image2pipe") as target:
        stream = target.add_stream("mjpeg", rate=1, options={"qmin": "3", "qmax": "5"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuvj420p"
        target.mux(stream.encode(frame.reformat(width, height, "yuvj420p")))
        target.mux(stream.encode(None))
    return file.getvalue()


def mp4_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata tags for an MP4 file.

    Tags that MP4 does not support are appended to the comment.
    """
    known = {name: value for name, value in tags.items() if name in _TAGS_IN_MP4}
    others = [f"{name}: {value}" for name, value in tags.items() if name not in _TAGS_IN_MP4]
    return {**known, "comment": "; ".join([tags["comment"], *others])}


def write_book(container: av.container.OutputContainer, book: Book) -> None:
    """Add chapters and a cover to a container that has an audio stream but no samples yet."""
    container.set_chapters(
        [
            {
                "id": number,
                "start": round(chapter.start_s * 1000),
                "end": round(chapter.end_s * 1000),
                "time_base": _MS,
                "metadata": {"title": chapter.title},
            }
            for number, chapter in enumerate(book.chapters)
        ]
    )
    codec = None if book.cover is None else cover_codec(book.cover)
    if book.cover is None or codec is None:
        return
    # The width and height are placeholders, because players read the real size from the image.
    stream = container.add_mux_stream(codec, width=600, height=600)
    stream.disposition = av.stream.Disposition.attached_pic
    stream.metadata["comment"] = "Cover (front)"  # Description of a front cover in ID3.
    container.start_encoding()
    packet = av.Packet(book.cover)
    packet.stream = stream
    packet.pts = packet.dts = 0
    container.mux(packet)
