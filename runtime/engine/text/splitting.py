"""Splitting of a text into parts that are spoken one after the other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from runtime.engine.text.rules import expected_frames
from runtime.request import Split
from runtime.shared.sentence_ends import MARK, SPOKEN, ends_sentence
from runtime.shared.speech_rate import is_readable

# The model speaks a clause like a whole utterance, with falling pitch and a pause at its end. Clauses shorter than this
# (20 letters or 6 Chinese characters, about 1.3 s) would sound like a list without earlier audio.
CLAUSE_FRAMES = expected_frames("x" * 20)
SPACE_BEFORE_WORD = re.compile(r"\s+(?=[^\W_])")


class Splitter:
    """Incremental splitter, which returns parts once later text cannot change them.

    Parts have no surrounding white space and at least one letter or digit; punctuation alone stays with its neighbour.
    Together they have every character of the text except white space at the cuts. So a cut is certain only after the
    next letter or digit, which also distinguishes "e.g. this" from the end of a sentence.

    No part has more than `longest` characters. A longer one is cut at its last sentence, clause or white space, or else
    anywhere. Only punctuation that fits into no part is dropped.
    """

    def __init__(self, split: Split, longest: int | None = None) -> None:
        self._split = split
        self._longest = longest
        self._text = ""  # Text that has not been returned yet, without leading white space.
        self._decided = 0  # Index before which there is no certain cut.
        self._later = 0  # Start of the last added text.

    def add(self, text: str) -> list[str]:
        """Append text and return the parts that are complete now."""
        before, self._text = len(self._text), self._text + text if self._text else text.lstrip()
        parts: list[str] = []
        if not SPOKEN.search(text):  # No cut becomes certain.
            return parts
        self._later = before
        while end := self._certain_end():
            parts += self._take(end)
        return parts

    def flush(self) -> list[str]:
        """Return all parts of the text so far. Punctuation after a flush has no neighbour and is dropped.

        Without words, symbols that have a spoken name are a part.
        """
        whole = self._split in (Split.AUTO, Split.NONE)
        parts: list[str] = []
        while SPOKEN.search(self._text):
            parts += self._take((not whole and self._certain_end(is_whole=True)) or len(self._text))
        most = self._longest or len(self._text) or 1
        symbols = (self._text[start : start + most].strip() for start in range(0, len(self._text), most))
        parts += filter(is_readable, symbols)
        self._text = ""
        self._decided = 0
        self._later = 0
        return parts

    @property
    def holds_words(self) -> bool:
        """True if there are words that may still become part of a longer part."""
        return is_readable(self._text)

    def _certain_end(self, *, is_whole: bool = False) -> int:
        """Return the end of the first part; 0 if uncertain, the end of the text if it is too long for one part."""
        if self._split is Split.NONE:
            return 0
        last = last_spoken(self._text)
        too_much = None if self._longest is None else SPOKEN.search(self._text, self._longest)
        most = None if too_much is None else too_much.start()  # A part that ends after it is shortened anyway.
        clauses = self._split is Split.CLAUSE
        for cut, is_sentence in _cuts(self._text, clauses, self._decided, most=most, is_whole=is_whole):
            if is_sentence is None:
                self._decided = cut
                break
            if self._split is Split.AUTO and cut > self._later:  # Text of one `add` call stays one part.
                break
            return cut
        else:
            self._decided = last + 1
        return len(self._text) if self._longest is not None and last >= self._longest else 0

    def _take(self, end: int) -> list[str]:
        """Remove and return the text up to `end`, or as much of it as fits into one part."""
        part = self._text[:end].rstrip()
        if self._longest is not None and len(part) > self._longest:
            part, end = _shortened(part, self._longest)
        rest = self._text[end:].lstrip()
        self._later -= len(self._text) - len(rest)
        self._text = rest
        self._decided = 0
        return [part] if part else []


def certain_end_past(text: str, longest: int, passed: int) -> int:
    """Return the first sentence end after `longest` characters, or word end after 1.5 times as many; 0 if none yet.

    Ends before `passed` are not considered any more.
    """
    first, most = max(longest, passed), longest + longest // 2
    if last_spoken(text) < first:
        return 0
    space = next((place.end() for place in SPACE_BEFORE_WORD.finditer(text, max(first, most))), 0)
    for cut, is_sentence in _cuts(text, False):
        if is_sentence is None or cut >= first:
            return (cut if is_sentence else 0) if not space or cut < space else space
    return space


def settled_end(text: str, longest: int | None) -> int:
    """Return the number of characters that stay in this part, independent of later text.

    After `longest` characters a mark may end the part. After a quotation, some more letters decide that.
    """
    settled = max(len(text) if longest is None else min(len(text), longest), last_spoken(text) + 1)
    if longest is None or settled <= longest:
        return settled
    open_mark = next((place for place, is_sentence in _cuts(text, False) if is_sentence is None), settled)
    return min(settled, max(longest, open_mark))


def _cuts(
    text: str,
    clauses: bool,
    start: int = 0,
    *,
    most: int | None = None,
    known: int | None = None,
    is_whole: bool = False,
) -> Iterator[tuple[int, bool | None]]:
    """Yield the certain cuts, each with True for the end of a sentence and False for that of a clause.

    Both sides of a cut have words. Later text moves no cut: it depends only on the text up to the next letter or digit,
    or after a quotation on the next `QUOTATIVE_CHARS`. If these are still missing, the cut is the last one, with None.
    Marks after `most` are ignored.
    """
    first = follows = SPOKEN.search(text)
    for mark in MARK.finditer(text, start):
        if most is not None and mark.start() > most:
            return
        if follows is not None and follows.start() < mark.end():
            follows = SPOKEN.search(text, mark.end())
        if follows is None:
            return
        if first is None or mark.start() < first.start():
            continue
        if mark["paragraph"]:
            yield mark.start(), True
        elif mark["end"]:
            ends = ends_sentence(text, mark, follows.start(), known=known, is_whole=is_whole)
            if ends is None:
                yield mark.start(), None
                return
            if ends:
                yield mark.end(), True
        elif clauses and mark["clause"] and _ends_clause(text, mark, follows.start()):
            yield mark.end(), False


def _ends_clause(text: str, mark: re.Match[str], follows: int) -> bool:
    number = mark.end() == follows and text[mark.start() - 1].isdecimal() and text[follows].isdecimal()
    return not number and expected_frames(text[: mark.end()]) >= CLAUSE_FRAMES


def _shortened(text: str, longest: int) -> tuple[str, int]:
    """Return the first part of a text that is too long for one, and the number of characters that it consumes.

    The part is empty if the text starts with more punctuation than a part may have.
    """
    first, last = _first_spoken(text), last_spoken(text)
    if first >= longest:
        return "", first
    if first == last:
        return text[:longest].rstrip(), len(text)
    most = min(longest, last)
    best = {True: 0, False: 0}
    for cut, is_sentence in _cuts(text, True, most=most, known=most + 1, is_whole=True):
        if cut > most:
            break
        best[is_sentence is True] = cut
    space = next((place for place in range(most, first, -1) if text[place].isspace()), 0)
    cut = best[True] or best[False] or space or _between_characters(text, first + 1, most)
    return text[:cut].rstrip(), cut


def _between_characters(text: str, least: int, most: int) -> int:
    """Return the last index from `most` down to `least` that separates no letter from its marks and no joined emoji."""
    joined = (
        place
        for place in range(most, least, -1)
        if unicodedata.category(text[place])[0] != "M" and "\u200d" not in text[place - 1 : place + 1]
    )
    return next(joined, least)


def _first_spoken(text: str) -> int:
    return next(place for place, character in enumerate(text) if character.isalnum())


def last_spoken(text: str) -> int:
    """Return the index of the last letter or digit; -1 if there is none."""
    return next((place for place in range(len(text) - 1, -1, -1) if text[place].isalnum()), -1)
