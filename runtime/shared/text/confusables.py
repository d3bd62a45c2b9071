"""Detection of names that look alike, based on Unicode's confusable characters (TR39)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

import regex

TABLE_FILE = Path(__file__).with_suffix(".tsv")  # Table of confusable characters, which tools/confusables.py generates.
# Pattern of invisible characters, and of combining marks that do not belong to a particular script.
_UNSEEN = regex.compile(r"[\p{Default_Ignorable_Code_Point}[\p{Mn}&&\p{Script=Inherited}]]", regex.V1)
_PALOCHKA = {ord("ӏ"): "l"}  # Replacement of the palochka, which TR39 maps to i. It looks like l in most fonts.


def find_confusable(name: str, others: Iterable[str]) -> str | None:
    """Return the first name in `others` that looks like `name`, or None."""
    look = _look(name)
    return next((other for other in others if look in _skeletons(other)), None)


@lru_cache(4096)
def _skeletons(name: str) -> frozenset[str]:
    """Return the look-alike keys of a name as written, and in lower, upper and title case."""
    return frozenset(map(_look, (name, name.lower(), name.upper(), name.title())))


@lru_cache(4096)
def _look(name: str) -> str:
    """Return a key that is equal for names that look alike.

    The key is independent of the case of most letters. A capital I looks like l, so L keeps its case: "CIara" equals
    "Clara", but "Lan" does not equal "Ian".
    """
    folded = "".join(letter if letter == "L" else letter.casefold() for letter in _skeleton(name))
    return " ".join(_skeleton(folded).split())


def _skeleton(text: str) -> str:
    """Return the skeleton of a text (TR39) after normalization to compatibility forms.

    The table is also applied before normalization, because some characters look different afterwards: ſ becomes s.
    """
    return _translated(_UNSEEN.sub("", unicodedata.normalize("NFKC", _translated(text))))


def _translated(text: str) -> str:
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).translate(_prototypes()))


@cache
def _prototypes() -> dict[int, str]:
    """Return the table of confusable characters (loading takes 5 ms, and the table is cached)."""
    lines = TABLE_FILE.read_text(encoding="utf-8").split("\n")[1:-1]
    return {ord(character): found for character, found in (line.split("\t", 1) for line in lines)} | _PALOCHKA
