"""Detection of a text file's character encoding by chardet.

If the result is uncertain, it returns the candidates.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

import chardet

from studio.documents.values import NO_DOCUMENT, OTHER_ENCODING, UnreadableError

MAX_CANDIDATES = 6
# Encodings whose confidence is at least this share of the best one are offered as alternatives.
UNCERTAIN_FROM = 0.95
# Encoding of a short text that fits it and a related one equally well. HTML has the same default.
_DEFAULT_ENCODING = "Windows-1252"
_RELATED = ("windows-125", "iso8859", "iso-8859")
# At most one broken byte per this many non-ASCII characters counts as damaged UTF-8 instead of another encoding.
UTF8_CHARS_PER_FAULT = 10
UTF16_SAMPLE_BYTES = 8192

# Latin letter next to a Greek, Cyrillic, Hebrew or Arabic letter. Real words have no such pair.
_MIXED = re.compile(r"[A-Za-z][\u0370-\u06ff]|[\u0370-\u06ff][A-Za-z]")
_CONTROL = re.compile(r"[\0-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f]")
_MARKS = " \r\n.,!?\u3001\u3002\uff0c\uff01\uff1f"


@dataclass(slots=True)
class Decoded:
    """Decoded text file.

    ``candidates`` has the possible encodings, the used one first. It is empty if the encoding is certain.
    """

    text: str
    encoding: str
    candidates: list[str] = field(default_factory=list)
    damaged: int = 0  # Number of characters that were replaced by U+FFFD.


def decode(data: bytes, encoding: str | None = None) -> Decoded:
    """Decode a text file.

    Args:
        data: the whole file.
        encoding: the user's choice; None detects it.

    Raises:
        UnreadableError: The file is not text, or not in that encoding.
    """
    if data.endswith(b"\n\x1a"):  # DOS programs end a text with this character.
        data = data[:-1]
    if encoding is not None:
        text = _decoded(data, encoding)
        if text is None:
            raise UnreadableError(OTHER_ENCODING)
        return Decoded(text, encoding)
    damaged = _damaged_utf8(data)
    if damaged is not None:
        return damaged
    found = chardet.detect_all(data, max_bytes=max(len(data), 1))
    names = [(name, one["confidence"]) for one in found if (name := one["encoding"]) is not None]
    if wide := _utf16(data, names[0][0] if names else None):
        names = [(wide, 1.0)]
    texts = [(name, confidence, text) for name, confidence in names if (text := _decoded(data, name)) is not None]
    if not texts:
        raise UnreadableError(NO_DOCUMENT)
    # The sort is stable, so the most confident candidate stays first.
    texts.sort(key=lambda one: bool(_MIXED.search(one[2])))
    if texts[0][0].lower().startswith(_RELATED):
        likely = texts[0][1] * UNCERTAIN_FROM
        texts.sort(key=lambda one: one[0] != _DEFAULT_ENCODING or one[1] < likely)
    name, confidence, text = texts[0]
    others: dict[str, str] = {}
    for other, near, reading in texts[1:]:
        if near >= confidence * UNCERTAIN_FROM and reading != text:
            others.setdefault(reading, other)
    return Decoded(text, name, [name, *list(others.values())[: MAX_CANDIDATES - 1]] if others else [])


def _decoded(data: bytes, encoding: str) -> str | None:
    """Return the text, or None if it cannot be text in that encoding."""
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except (LookupError, ValueError):
        return None
    return None if _CONTROL.search(text) else text


def _damaged_utf8(data: bytes) -> Decoded | None:
    """Return the text of a file that is UTF-8 except for a few broken bytes."""
    try:
        data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="replace").removeprefix("\ufeff")
        damaged = text.count("\ufffd")
        beyond_ascii = sum(map(len, re.findall(r"[^\0-\x7f\ufffd]+", text)))
        if damaged * UTF8_CHARS_PER_FAULT <= beyond_ascii and not _CONTROL.search(text):
            return Decoded(text, "utf-8", damaged=damaged)
    return None


def _utf16(data: bytes, detected: str | None) -> str | None:
    """Return the byte order of UTF-16 without a mark, which short and non-Latin texts hide from the detection."""
    if detected not in {None, "utf-16-le", "utf-16-be"} or len(data) % 2 or not data:
        return None
    best: tuple[int, str] | None = None
    for name in ("utf-16-le", "utf-16-be"):
        try:
            text = data[:UTF16_SAMPLE_BYTES].decode(name)
        except UnicodeDecodeError:
            continue
        if any(unicodedata.category(letter) in {"Cn", "Co"} for letter in text) or _CONTROL.search(text):
            continue
        best = max(best or (0, name), (sum(map(text.count, _MARKS)), name))
    return best[1] if best and best[0] else None
