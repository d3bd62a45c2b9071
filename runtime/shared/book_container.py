"""Chapters, cover and tags of an audiobook's file, by PyAV. The cover is copied and never decoded."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import av
import av.container
import av.stream

# Codec of a cover by the first bytes of its file.
COVER_CODECS = {b"\xff\xd8\xff": "mjpeg", b"\x89PNG\r\n\x1a\n": "png"}

MAX_COVER_BYTES = 640 * 2**10  # As base64, it fits into a script next to its other fields.

_URL_PREFIXES = ("data:image/jpeg;base64,", "data:image/png;base64,")
_MS = Fraction(1, 1000)
_TAGS_IN_MP4 = {"title", "artist", "album_artist", "album", "composer", "genre", "date", "comment"}


@dataclass(frozen=True, slots=True)
class BookChapter:
    """Chapter from one time to another in seconds."""

    title: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Book:
    """Chapters and cover of a file; ``cover`` is a JPEG or PNG file."""

    chapters: Sequence[BookChapter] = ()
    cover: bytes | None = field(default=None, repr=False)


def cover_codec(image: bytes) -> str | None:
    """Return the codec of an image that can be a cover, or None."""
    return next((codec for magic, codec in COVER_CODECS.items() if image.startswith(magic)), None)


def read_cover(url: str) -> bytes | None:
    """Return the file of a data URL, or None if it is no JPEG or PNG, or too large."""
    prefix = next((prefix for prefix in _URL_PREFIXES if url.startswith(prefix)), None)
    if prefix is None or len(url) > len(prefix) + 4 * (MAX_COVER_BYTES // 3 + 1):
        return None
    try:
        image = base64.b64decode(url[len(prefix) :], validate=True)
    except (binascii.Error, ValueError):
        return None
    return image if cover_codec(image) is not None else None


def cover_url(image: bytes) -> str:
    """Return an image that can be a cover as a data URL."""
    kind = "jpeg" if cover_codec(image) == "mjpeg" else "png"
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


def mp4_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tags that MP4 has, with the others at the end of the comment."""
    known = {name: value for name, value in tags.items() if name in _TAGS_IN_MP4}
    others = [f"{name}: {value}" for name, value in tags.items() if name not in _TAGS_IN_MP4]
    return {**known, "comment": "; ".join([tags["comment"], *others])}


def write_book(container: av.container.OutputContainer, book: Book) -> None:
    """Add chapters and cover to a container with its audio stream, before the first sample."""
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
    stream = container.add_mux_stream(codec, width=600, height=600)  # Readers take the size from the image.
    stream.disposition = av.stream.Disposition.attached_pic
    stream.metadata["comment"] = "Cover (front)"  # ID3's name of the picture's type.
    container.start_encoding()
    packet = av.Packet(book.cover)
    packet.stream = stream
    packet.pts = packet.dts = 0
    container.mux(packet)
