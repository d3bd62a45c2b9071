"""Detection of text in a writing system that no language of a checkpoint uses."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

import regex

# For each script, the languages that use it. A language is the first word of its name in checkpoints.
WRITTEN_BY = {
    "Han": ("chinese", "japanese", "korean"),
    "Bopomofo": ("chinese",),
    "Hiragana": ("japanese",),
    "Katakana": ("japanese",),
    "Hangul": ("korean",),
    "Cyrillic": ("russian",),
}
# Scripts that texts in all languages may use. Greek letters and common characters are used as symbols (ℝ, ʼ).
EVERYWHERE = ("Latin", "Greek", "Common", "Inherited")
DIALECT = "dialect"  # Part of the names of dialects in checkpoints. All of them are dialects of Chinese.


def find_unsupported_script(text: str, languages: Iterable[str]) -> str:
    """Return the first script in a text that none of the languages uses.

    Args:
        text: Text to speak.
        languages: Languages of the checkpoint.

    Returns:
        Lower-case name of the script, or an empty string if the languages use all scripts of the text.
    """
    if text.isascii():
        return ""
    known = frozenset(map(_writing, languages))
    found = _strange(known).search(text) if known else None
    return "" if found is None else _script(found[0])


@lru_cache(32)
def _strange(known: frozenset[str]) -> regex.Pattern[str]:
    """Return a regular expression for letters that none of these languages uses."""
    written = (script for script, writers in WRITTEN_BY.items() if known.intersection(writers))
    scripts = "".join(rf"\p{{{script}}}" for script in (*EVERYWHERE, *written))
    return regex.compile(rf"(?V1)[\p{{L}}--[{scripts}]]")


def _writing(language: str) -> str:
    return "chinese" if DIALECT in language.lower() else language.lower().partition("_")[0]


def _script(letter: str) -> str:
    """Return the script of a letter, derived from its Unicode name."""
    return "cjk" if regex.match(r"\p{Han}", letter) else unicodedata.name(letter, "unknown").partition(" ")[0].lower()
