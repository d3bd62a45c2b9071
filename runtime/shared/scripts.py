"""Tells whether a text is written in a script that none of some languages uses."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

import regex

# By the script that Unicode gives a letter: the languages written in it, each by the first word of its name in
# checkpoints.
WRITTEN_BY = {
    "Han": ("chinese", "japanese", "korean"),
    "Bopomofo": ("chinese",),
    "Hiragana": ("japanese",),
    "Katakana": ("japanese",),
    "Hangul": ("korean",),
    "Cyrillic": ("russian",),
}
# Latin letters stand in texts of every language, Greek ones and those of no script of their own (ℝ, ʼ) as symbols.
EVERYWHERE = ("Latin", "Greek", "Common", "Inherited")
DIALECT = "dialect"  # Dialects named by checkpoints are Chinese.


def strange_script(text: str, languages: Iterable[str]) -> str:
    """Return the script of the first letter that none of the languages is written in, in lower case; "" without one."""
    if text.isascii():
        return ""
    known = frozenset(map(_writing, languages))
    found = _strange(known).search(text) if known else None
    return "" if found is None else _script(found[0])


@lru_cache(32)
def _strange(known: frozenset[str]) -> regex.Pattern[str]:
    """What finds a letter that none of these languages is written in."""
    written = (script for script, writers in WRITTEN_BY.items() if known.intersection(writers))
    scripts = "".join(rf"\p{{{script}}}" for script in (*EVERYWHERE, *written))
    return regex.compile(rf"(?V1)[\p{{L}}--[{scripts}]]")


def _writing(language: str) -> str:
    return "chinese" if DIALECT in language.lower() else language.lower().partition("_")[0]


def _script(letter: str) -> str:
    """What its script is called, as the name of the letter begins."""
    return "cjk" if regex.match(r"\p{Han}", letter) else unicodedata.name(letter, "unknown").partition(" ")[0].lower()
