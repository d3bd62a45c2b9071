"""Audio files of stored recordings: encoding, metadata tags and waveform outlines."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

import numpy as np

from runtime.shared.audio.book_container import Book
from runtime.shared.audio.encoding import AI_COMMENT, M4B, Encoder
from runtime.shared.audio.encoding import FORMATS as ENCODED
from runtime.version import package_version

FORMATS = {name: ENCODED[name].media_type for name in ("wav", "mp3", "flac", "opus", "pcm")}
EXPORT_FORMATS = {**FORMATS, "m4b": M4B.media_type}

# Media types of reference recordings by their first bytes. Browsers execute no content of these types.
_KINDS = (
    (0, b"RIFF", "audio/wav", "wav"),
    (0, b"fLaC", "audio/flac", "flac"),
    (0, b"OggS", "audio/ogg", "ogg"),
    (0, b"ID3", "audio/mpeg", "mp3"),
    (0, b"\xff\xfb", "audio/mpeg", "mp3"),
    (0, b"FORM", "audio/aiff", "aiff"),
    (0, b"\x1aE\xdf\xa3", "audio/webm", "webm"),
    (4, b"ftyp", "audio/mp4", "m4a"),
)


def encoded(wanted: str, pcm: bytes, tags: Mapping[str, str], bit_rate: int | None = None) -> bytes:
    """Encode PCM samples (s16le, 24 kHz, mono), and return the bytes of the audio file.

    Lossless formats contain the unchanged samples. `bit_rate` is in bit/s.

    Raises:
        KeyError: The format `wanted` is not a key of ``FORMATS``.
    """
    encoder = Encoder(wanted, whole=True, tags=tags, bit_rate=bit_rate)
    return encoder.encode_pcm(pcm) + encoder.finish()


def encode_into(
    file: IO[bytes],
    wanted: str,
    pieces: Iterable[bytes],
    tags: Mapping[str, str],
    book: Book | None = None,
    bit_rate: int | None = None,
) -> None:
    """Encode PCM samples (s16le, 24 kHz, mono) into an empty seekable file.

    Args:
        file: Open file to which the encoded audio is written.
        wanted: Format, a key of ``FORMATS``.
        pieces: Consecutive pieces of the samples.
        tags: Metadata tags of the file.
        book: Chapters and cover of an audiobook, or None.
        bit_rate: Bit rate in bit/s, or None for the format's default.
    """
    encoder = Encoder(wanted, file=file, tags=tags, book=book, bit_rate=bit_rate)
    for piece in pieces:
        encoder.encode_pcm(piece)
    encoder.finish()


def version_of(wanted: str, tags: Mapping[str, str]) -> str:
    """Return the digest that identifies an encoded version of a recording in an ETag.

    It is computed from the audio format and the metadata tags, because the samples never change.
    """
    return hashlib.sha256(repr((wanted, sorted(tags.items()))).encode()).hexdigest()[:32]


def kind_of(data: bytes) -> tuple[str, str]:
    """Return the media type and the file suffix of an audio file.

    Both are detected from the first bytes of the file, `data`.
    """
    for start, magic, media_type, suffix in _KINDS:
        if data.startswith(magic, start):
            return media_type, suffix
    return "application/octet-stream", "bin"


MAX_SEEDS = 32  # Maximum number of seeds in the tags of a file with several takes.


def tags_of(record: dict[str, Any]) -> dict[str, str]:
    """Return the metadata tags for the audio file of one stored recording."""
    return joined_tags([record], title_of(record), record["sha256"])


def joined_tags(records: Sequence[dict[str, Any]], title: str, sha256: str) -> dict[str, str]:
    """Return the metadata tags of an audio file that joins several stored recordings.

    Args:
        records: Metadata records of the recordings.
        title: Title of the file.
        sha256: SHA-256 of the file's samples (s16le, 24 kHz).
    """
    fields = {
        "title": title,
        "comment": AI_COMMENT,
        "software": f"Voicewright {package_version()}",
        "date": time.strftime("%Y-%m-%d", time.gmtime(max(record["created_at"] for record in records))),
        "model": _all(model_of(record["model"]) for record in records),
        "mode": _all(record["mode"] for record in records),
        "voice": _all(record["voice"] for record in records),
        "language": _all(record["language"] for record in records),
        "seed": _all(record["seed"] for record in records),
        "sha256": sha256,
    }
    return {name: _line(value) for name, value in fields.items() if value}


def title_of(record: dict[str, Any]) -> str:
    """Return the title of a stored recording: its name, or the first characters of its text."""
    return _line(record["name"] or record["text"][:80] or record["label"] or "Take")


def model_of(model: object) -> str:
    """Return a model's id, with its revision or fingerprint, as one line."""
    if isinstance(model, dict):
        parts = [model.get("id"), model.get("revision") or model.get("fingerprint")]
        return " ".join(str(part) for part in parts if part)
    return str(model or "")


def _all(values: Any) -> str:
    """Return the distinct values in order, separated by commas."""
    named = [str(value) for value in dict.fromkeys(values) if value is not None and value != ""]
    return ", ".join(named[:MAX_SEEDS] + ["…"] * (len(named) > MAX_SEEDS))


def _line(text: str) -> str:
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


PARTS = 32
FULL_SCALE = 255


def outline(pcm: bytes) -> list[int]:
    """Return the outline of a waveform: peak levels from 0 to `FULL_SCALE`.

    The audio is divided into up to 32 parts of equal length, and each part has one level.

    Args:
        pcm: Samples as bytes (s16le, mono).
    """
    samples = np.abs(np.frombuffer(pcm, "<i2").astype(np.int32))
    parts = np.array_split(samples, min(PARTS, max(len(samples), 1)))
    return [int(part.max(initial=0)) * FULL_SCALE // 32768 for part in parts]
