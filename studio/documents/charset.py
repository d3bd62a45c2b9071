"""Detection of a text file's character encoding, based on chardet.

If the detection is uncertain, all possible encodings are returned.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import dataclass, field

import chardet

from studio.documents.values import NO_DOCUMENT, OTHER_ENCODING, UnreadableError

MAX_CANDIDATES = 6
# Minimum confidence of an alternative encoding that is offered, as a fraction of the best confidence.
UNCERTAIN_FROM = 0.95
# Confidence below which all encodings are offered, because the text may have an unsupported encoding, such as EUC-TW.
# Plausible Latin text is an exception, because its confidence is low in every short text.
LOW_CONFIDENCE = 0.15
SAMPLE_BYTES = 2**16
WEIGHED_CHARS = 4096
# Minimum number of valid non-ASCII characters per broken byte, for a text to count as damaged UTF-8.
UTF8_CHARS_PER_FAULT = 10
# Minimum number of characters per control character, for a file to count as text.
CHARS_PER_CONTROL = 100
UTF16_SAMPLE_BYTES = 8192

# The confidence that the detector reports is multiplied by the following weights, because short texts can be decoded in
# many encodings.
_DEFAULT_ENCODING = "Windows-1252"  # Default encoding of HTML.
_DEFAULT_WEIGHT = 1.1
_RARE_WEIGHT = 0.6
_IMPLAUSIBLE_WEIGHT = 0.5
_MIXED_WEIGHT = 0.001
_APOSTROPHE_WEIGHT = 4.0
_RARE = re.compile(r"cp(?!874|932|949)|iso8859|johab|koi8-t|mac|hp-|kz|ptcp", re.IGNORECASE)
# Letters outside ASCII by language: Italian, French, German, Spanish, Catalan, Portuguese, Nordic languages,
# Dutch and English, Czech, Slovak, Polish, Hungarian, Romanian, Croatian, Turkish, Lithuanian, Latvian, Estonian.
_ALPHABETS = [
    *map(set, ("àèéìòù", "àâæçéèêëîïôœùûüÿ", "äöüß", "áéíñóúü", "àçèéíòóúü", "àáâãçéêíóôõú", "äåæéøö")),
    *map(set, ("çèéêëïóöü", "áčďéěíňóřšťúůýž", "áäčďéíľňóôŕšťúýž", "áéíóöőúüű", "ăâîşţș", "ćčđšž")),
    *map(set, ("ąćęłńóśźż", "çğıöşüi̇", "ąčęėįšųūž", "āčēģīķļņšūž", "äõöüšž")),
]
_SIGNS = set("\xa0¡£§¨©ª«\xad®°²³´·º»½¿–—‘’‚“”„•…€™№")
_WORDS_OF_ONE_LETTER = set("àâèéêóåöøőú")
_NO_WORD = re.compile(r"[a-z][¡ªº¿]|[A-Za-z][„“”][A-Za-z]")
_APOSTROPHE = re.compile(r"[a-z]’[a-z]")  # Pattern of an apostrophe between two letters, as in "isn't" and "l'amico".
_WORD = re.compile(r"[^\W\d_]+")
_LONG_ASCII = re.compile(rb"(?<=[\0-\x7f]{32})[\0-\x7f]{64,}(?=[\0-\x7f]{32})")

# Pattern of a Latin letter directly next to a Greek, Cyrillic, Hebrew or Arabic letter. Real words have no such pair.
_MIXED = re.compile(
    r"[A-Za-z][\u0370-\u05bd\u05bf-\u06ff\ufb50-\ufeff]|[\u0370-\u05bd\u05bf-\u06ff\ufb50-\ufeff][A-Za-z]"
)
_CONTROL = re.compile(r"[\0-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f]")
_MARKS = " \r\n.,!?\u3001\u3002\uff0c\uff01\uff1f"


@dataclass(slots=True)
class Decoded:
    """Decoded text of a file, with its character encoding.

    ``candidates`` lists the possible encodings, starting with `encoding`. It is empty if the encoding is certain.
    """

    text: str
    encoding: str
    candidates: list[str] = field(default_factory=list)
    damaged: int = 0  # Number of characters that were replaced by U+FFFD.


def decode(data: bytes, encoding: str | None = None, *, likely: str | None = None) -> Decoded:
    """Decode the bytes of a text file.

    Args:
        data: Bytes of the whole file.
        encoding: Encoding that the user has selected, or None to detect the encoding.
        likely: Encoding of other files of the same book. It replaces detection if this file is not UTF-8.

    Raises:
        UnreadableError: The file is not text, or cannot be decoded with the selected encoding.
    """
    if data.endswith(b"\n\x1a"):  # DOS programs end a text file with this control character.
        data = data[:-1]
    if encoding is None and (damaged := _damaged_utf8(data)) is not None:
        return damaged
    if chosen := encoding or likely:
        text = _decoded(data, chosen)
        if text is None:
            raise UnreadableError(OTHER_ENCODING)
        return Decoded(text, chosen)
    part = sample(data)
    found = chardet.detect_all(part, max_bytes=SAMPLE_BYTES, ignore_threshold=True)
    names = [(name, one["confidence"]) for one in found if (name := one["encoding"]) is not None]
    if wide := _utf16(data, names[0][0] if names else None):
        names = [(wide, 1.0)]
    elif kana := _kana(part):
        names.insert(0, (kana, 1.0))
    readings = {
        name: (near, text) for name, near in names if (text := _decoded(part, name, is_whole=False)) is not None
    }
    ordered = sorted(readings, key=lambda name: readings[name][0] * _weight(name, readings[name][1]), reverse=True)
    for name in ordered:
        if (text := _decoded(data, name)) is not None:
            break
    else:
        raise UnreadableError(NO_DOCUMENT)
    confidence, reading = readings[name]
    is_latin = max(set(reading) - _SIGNS, default="") < "\u0370" and _is_plausible(reading[:WEIGHED_CHARS])
    is_doubtful = confidence < LOW_CONFIDENCE and not is_latin
    others: dict[str, str] = {}
    for other in ordered:
        near, differing = readings[other]
        if (near >= confidence * UNCERTAIN_FROM or is_doubtful) and differing != reading:
            others.setdefault(differing, other)
    return Decoded(text, name, [name, *list(others.values())[: MAX_CANDIDATES - 1]] if others else [])


def sample(data: bytes) -> bytes:
    """Return up to `SAMPLE_BYTES` bytes of a text, to detect its character encoding.

    Long ASCII sections are removed, because they are equal in most encodings.
    """
    if len(data) > SAMPLE_BYTES and b"\0" not in data and not data.isascii():
        data = _LONG_ASCII.sub(b"\n", data)
    return data[:SAMPLE_BYTES]


def _weight(encoding: str, text: str) -> float:
    weight = _DEFAULT_WEIGHT if encoding == _DEFAULT_ENCODING else _RARE_WEIGHT if _RARE.match(encoding) else 1.0
    if _MIXED.search(text):
        weight *= _MIXED_WEIGHT
    start = text[:WEIGHED_CHARS]
    if not _is_plausible(start):
        return weight * _IMPLAUSIBLE_WEIGHT
    has_apostrophe = encoding.startswith(("Windows", "Mac")) and _APOSTROPHE.search(start) is not None
    return weight * _APOSTROPHE_WEIGHT if has_apostrophe else weight


def _is_plausible(text: str) -> bool:
    """True if all non-ASCII letters of the text can belong to one language."""
    others = {letter for letter in text.lower() if letter > "\x7f"} - _SIGNS
    foreign_words = [word for word in _WORD.findall(text) if not word.isascii()]
    if others and max(others) >= "\u0370":
        if min(others) < "\u0300" or all(len(word) == 1 for word in foreign_words):
            return False
        return all(
            one.isalpha() or one >= "\u2e80" or (unicodedata.category(one)[0] in "MP" and one < "\u2000")
            for one in others
        )
    if not any(others <= alphabet for alphabet in _ALPHABETS) or _NO_WORD.search(text):
        return False
    return all(map(_is_word, foreign_words))


def _is_word(word: str) -> bool:
    """True if a word has usual capitalization, or is a known one-letter word."""
    if len(word) == 1:
        return word.lower() in _WORDS_OF_ONE_LETTER
    return word.isupper() or word[1:] == word[1:].lower()


def _decoded(data: bytes, encoding: str, *, is_whole: bool = True) -> str | None:
    """Return the decoded text, or None if the data is not text in this encoding.

    Args:
        is_whole: False if the data may end inside a character.
    """
    try:
        text = data.decode(encoding) if is_whole else codecs.getincrementaldecoder(encoding)().decode(data)
    except (LookupError, ValueError):
        return None
    return None if _CONTROL.search(text) else text.removeprefix("\ufeff")


def _damaged_utf8(data: bytes) -> Decoded | None:
    """Return the text of a file that is UTF-8 except for a few invalid bytes or controls."""
    try:
        text, is_valid = data.decode(), True
    except UnicodeDecodeError:
        text, is_valid = data.decode(errors="replace"), False
    if is_valid and ("\x1b" in text or not _CONTROL.search(text)):  # ISO 2022 encodings contain escape characters.
        return None
    text = _CONTROL.sub("\ufffd", text.removeprefix("\ufeff"))
    damaged = text.count("\ufffd")
    beyond_ascii = sum(map(len, re.findall(r"[^\0-\x7f\ufffd]+", text)))
    has_few = damaged * UTF8_CHARS_PER_FAULT <= beyond_ascii
    if has_few or (is_valid and damaged * CHARS_PER_CONTROL <= len(text)):
        return Decoded(text, "utf-8", damaged=damaged)
    return None


def _kana(part: bytes) -> str | None:
    """Return the encoding of Japanese text with few kanji, which chardet does not detect."""
    for name in ("CP932", "EUC-JP"):
        text = _decoded(part, name, is_whole=False) or ""
        beyond_ascii = [letter for letter in text if letter > "\x7f"]
        kana = sum("\u3041" <= letter <= "\u30ff" for letter in beyond_ascii)
        if kana > 1 and 2 * kana >= len(beyond_ascii):
            return name
    return None


def _utf16(data: bytes, detected: str | None) -> str | None:
    """Return the UTF-16 encoding of data without a byte order mark, or None for other data.

    chardet does not detect it in short texts and in texts without Latin letters.
    """
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
