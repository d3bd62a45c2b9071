"""Tells whether a text is written in a script that none of some languages uses."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

# By the beginning of a letter's Unicode name: who writes it, by the first word of a language as checkpoints name it.
# Latin letters stand in texts of every language, Greek ones and letters in forms of their own as symbols in formulas.
EVERYWHERE = ("LATIN", "GREEK", "MATHEMATICAL", "FULLWIDTH LATIN", "FEMININE", "MASCULINE", "MICRO")
WRITTEN_BY = {
    "CJK": ("chinese", "japanese", "korean"),
    "BOPOMOFO": ("chinese",),
    "HIRAGANA": ("japanese",),
    "KATAKANA": ("japanese",),
    "HANGUL": ("korean",),
    "CYRILLIC": ("russian",),
}
DIALECT = "dialect"  # those that checkpoints name are Chinese ones


def strange_script(text: str, languages: Iterable[str]) -> str:
    """Return the script of the first letter that none of the languages is written in, in lower case; "" without one."""
    if text.isascii():
        return ""
    known = {_writing(language) for language in languages}
    if not known:
        return ""
    for character in text:
        script = _script(character)
        if script and not known.intersection(WRITTEN_BY.get(script, ())):
            return script.lower()
    return ""


def _writing(language: str) -> str:
    return "chinese" if DIALECT in language.lower() else language.lower().partition("_")[0]


@lru_cache(4096)
def _script(character: str) -> str:
    """The script of a letter; "" for what is none or stands in texts of any language."""
    if character.isascii() or not character.isalpha():
        return ""
    name = unicodedata.name(character, "")
    if not name or name.startswith(EVERYWHERE):
        return ""
    return next((script for script in WRITTEN_BY if name.startswith(script)), name.partition(" ")[0])
