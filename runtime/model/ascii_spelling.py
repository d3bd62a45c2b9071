"""Spells text in ASCII, for a checkpoint that has learned from nothing else.

The bytes of other letters are in its vocabulary and were never heard: they come out as noise, and take the words
around them along. A letter is spelled by its compatibility decomposition without accents; one that has none, by a
table. A character is spelled the same wherever it stands, so that a text may be spelled piece by piece.
"""

from __future__ import annotations

import unicodedata

# Letters that Unicode does not decompose, as they are written where only ASCII can be.
LETTERS = {
    **{"ß": "ss", "ẞ": "SS", "ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe"},
    **{"đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "þ": "th", "Þ": "Th", "ħ": "h", "Ħ": "H", "ŧ": "t", "Ŧ": "T"},
    **{"ı": "i", "ĸ": "k", "ŋ": "ng", "Ŋ": "Ng", "ə": "e", "Ə": "E", "ƒ": "f", "·": "", "ʼ": "'"},
}
MARKS = {
    **dict.fromkeys("‘’‚‛′ʼʻʹ´‹›", "'"),
    **dict.fromkeys("“”„‟″«»「」『』《》", '"'),
    **dict.fromkeys("‐‑‒–−•", "-"),
    **dict.fromkeys("—―", " - "),  # a pause between words, which stand close to it mostly
    **{"。": ".", "、": ",", "…": "...", "¿": "", "¡": ""},
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),  # nothing is seen where they stand
    **dict.fromkeys("\u2028\u2029", " "),
}
ACCENTS = (range(0x300, 0x370), range(0x1DC0, 0x1E00), range(0xFE00, 0xFE10))  # also what chooses a letter's look

SPOKEN = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl", "No", "Sc")  # letters, numbers and currencies are read as words


def in_ascii(text: str) -> str:
    """Return the text in ASCII as far as it can be spelled so; what cannot stays as it is."""
    return text if text.isascii() else text.translate(_SPELLINGS)


def has_no_spelling(text: str) -> bool:
    """Whether there is something in the text to be read, not a mark or an emoji, that has no spelling in ASCII."""
    if text.isascii():
        return False
    return any(not letter.isascii() and unicodedata.category(letter) in SPOKEN for letter in in_ascii(text))


class _Spellings(dict[int, str]):
    """By code point, as `str.translate` asks for it. Only what changes is kept: clients send what they like."""

    def __missing__(self, point: int) -> str:
        character = chr(point)
        spelled = _spelling(character)
        if spelled == character:
            raise LookupError
        self[point] = spelled
        return spelled


_SPELLINGS = _Spellings()


def _spelling(character: str) -> str:
    if character.isascii():
        return character
    if character in MARKS:
        return MARKS[character]
    if any(ord(character) in accents for accents in ACCENTS):
        return ""
    kind = unicodedata.category(character)
    if kind == "Zs":
        return " "
    # Not numbers that are none of digits: x² and 2½ would be other numbers, x2 and 21/2. Not signs either: "<" would
    # come of "≮".
    if kind[0] not in "LP" and kind not in ("Nd", "Nl"):
        return character
    parts = unicodedata.normalize("NFKD", character)
    spelled = "".join(LETTERS.get(part, part) for part in parts if unicodedata.category(part) != "Mn")
    return spelled if spelled and spelled.isascii() else character
