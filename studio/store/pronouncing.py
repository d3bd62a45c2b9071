"""Says a text otherwise where the pronunciation dictionary does; the page's twin is assets/js/pronouncing.js.

A word is found where it stands whole, the longest first, and nothing is replaced twice. As it is written comes before
any other case.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

import regex

# What is written without spaces between words: such a word may begin and end anywhere.
_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_IN_A_WORD = rf"(?![{_SPACELESS}])[\p{{L}}\p{{M}}\p{{N}}]"
_WORD_LIKE = regex.compile(_IN_A_WORD)
_PAUSE = r"\[\s*pause\b[^\]]*\]"


def pronounced(text: str, entries: Iterable[Mapping[str, Any]]) -> tuple[str, int]:
    """The text as it is to be spoken, and how many places of it are said otherwise."""
    listed = list(entries)
    if not listed:
        return text, 0
    written = {_spaced(entry["word"]): entry["said"] for entry in listed}
    folded = {_fold(entry["word"]): entry["said"] for entry in reversed(listed)}  # the first of one word holds
    count = 0

    def said(found: regex.Match[str]) -> str:
        nonlocal count
        word = found[1]
        if word is None:  # a pause
            return str(found[0])
        other = written.get(_spaced(word)) or folded.get(_fold(word))
        if other is None or other == word:
            return str(word)
        count += 1
        return str(other)

    forms = {unicodedata.normalize(form, entry["word"]) for entry in listed for form in ("NFC", "NFD")}
    words = "|".join(_whole(word) for word in sorted(forms, key=len, reverse=True))
    # V0: one character folds to one, as in JavaScript.
    return regex.sub(f"{_PAUSE}|({words})", said, text, flags=regex.V0 | regex.IGNORECASE), count


def _whole(word: str) -> str:
    """A word as it may stand in a text, and not as a part of another."""
    middle = r"\s+".join(regex.escape(part) for part in word.split())
    return f"{_edge(word[0], before=True)}{middle}{_edge(word[-1], before=False)}"


def _edge(character: str, *, before: bool) -> str:
    """What may not stand before a word, or behind it."""
    if not _WORD_LIKE.match(character):
        return ""
    number = ""
    if unicodedata.category(character).startswith("N"):  # 3 is not in 3.5
        number = r"(?<!\p{N}[.,])" if before else r"(?![.,]\p{N})"
    return f"(?{'<' if before else ''}!{_IN_A_WORD}){number}"


def _spaced(word: str) -> str:
    return " ".join(unicodedata.normalize("NFC", word).split())


def _fold(word: str) -> str:
    return _spaced(word).upper().lower()
