"""Encoding of audio files with their tags, and media types of stored recordings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from runtime.shared.encoding import FORMATS as ENCODED
from runtime.shared.encoding import Encoder

FORMATS = {name: ENCODED[name].media_type for name in ("wav", "mp3", "flac", "opus", "pcm")}

# A reference is given back as what its first bytes say, and never as a type that a browser would run.
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


def encoded(wanted: str, pcm: bytes, tags: Mapping[str, str]) -> bytes:
    """Return a whole file. The lossless ones are made of the samples as they are.

    Raises:
        KeyError: not one of ``FORMATS``.
    """
    encoder = Encoder(wanted, whole=True, tags=tags)
    return encoder.add(pcm) + encoder.finish()


def version_of(wanted: str, tags: Mapping[str, str]) -> str:
    """Return a digest that changes whenever the file would."""
    return hashlib.sha256(repr((wanted, sorted(tags.items()))).encode()).hexdigest()[:32]


def kind_of(data: bytes) -> tuple[str, str]:
    """Media type and suffix by content."""
    for start, magic, media_type, suffix in _KINDS:
        if data.startswith(magic, start):
            return media_type, suffix
    return "application/octet-stream", "bin"
