"""ASCII spelling of text, for checkpoints that were trained on ASCII only.

The vocabulary contains the bytes of other letters, but the model was not trained on such bytes. It would produce noise
and damage adjacent words. A letter is replaced by its compatibility decomposition without accents, or by an entry of a
table. Symbols that `runtime.model.text.english_normalizer` can name are kept. Other characters (emoji, other scripts)
are dropped. The spelling of a character does not depend on other characters, so text can be converted in parts.
"""

from __future__ import annotations

import unicodedata

from runtime.model.text.english_normalizer import RAISED, SYMBOLS

DROPPED_REPLACEMENT = " "  # Replacement of dropped characters, which separates the adjacent words.

# ASCII spellings of letters that Unicode does not decompose.
LETTERS = {
    **{"ß": "ss", "ẞ": "SS", "ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe"},
    **{"đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "þ": "th", "Þ": "Th", "ħ": "h", "Ħ": "H", "ŧ": "t", "Ŧ": "T"},
    **{"ı": "i", "ĸ": "k", "ŋ": "ng", "Ŋ": "Ng", "ə": "e", "Ə": "E", "ƒ": "f", "·": "", "ʼ": "'"},
}
MARKS = {
    **dict.fromkeys("‘’‚‛′ʼʻʹ´‹›", "'"),
    **dict.fromkeys("“”„‟″«»「」『』《》", '"'),
    **dict.fromkeys("‐‑‒–−•", "-"),
    **dict.fromkeys("—―", " - "),  # A dash marks a pause between words and often has no spaces around it.
    **{"。": ".", "、": ",", "…": "...", "¿": "", "¡": ""},
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),  # Invisible characters are removed.
    **dict.fromkeys("\u2028\u2029", "\n"),
    **dict.fromkeys("™®", ""),
    **dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True)),
}
# Ranges of combining marks and variation selectors.
ACCENTS = (range(0x300, 0x370), range(0x1DC0, 0x1E00), range(0xFE00, 0xFE10))

# Unicode categories of characters that are dropped without a warning.
INVISIBLE_CATEGORIES = ("Zs", "Zl", "Zp", "Cf", "Mn", "Me")


def to_ascii(text: str) -> str:
    """Return the text in ASCII, except for the symbols in `SYMBOLS`.

    A character without an ASCII spelling becomes a space.
    """
    return text if text.isascii() else text.translate(_SPELLINGS)


def drops_characters(text: str) -> bool:
    """True if `to_ascii` drops visible characters of the text."""
    if text.isascii():
        return False
    return any(
        _spelling(character) == DROPPED_REPLACEMENT and unicodedata.category(character) not in INVISIBLE_CATEGORIES
        for character in set(text)
        if not character.isascii()
    )


class _Spellings(dict[int, str]):
    """Mapping from code points to spellings, for `str.translate`.

    Unchanged characters are not cached, because clients may send any Unicode character.
    """

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
    kind = unicodedata.category(character)
    if kind == "Cf" or any(ord(character) in accents for accents in ACCENTS):
        return ""
    if kind == "Zs":
        return " "
    if character in SYMBOLS or character in RAISED:
        return character
    # Other characters are not decomposed, because this would change the value of a number (x2 from x²) or the meaning
    # of a sign ("<" from "≮").
    if kind[0] not in "LP" and kind not in ("Nd", "Nl"):
        return DROPPED_REPLACEMENT
    parts = unicodedata.normalize("NFKD", character)
    spelled = "".join(LETTERS.get(part, part) for part in parts if unicodedata.category(part) != "Mn")
    return spelled if spelled and spelled.isascii() else DROPPED_REPLACEMENT
