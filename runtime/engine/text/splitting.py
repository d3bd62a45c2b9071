"""Cuts a text into parts that are spoken one after the other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from runtime.engine.text.rules import expected_frames
from runtime.request import Split
from runtime.shared.sentence_ends import MARK, SPOKEN, ends_sentence
from runtime.shared.speech_rate import is_readable

# A clause is spoken as if it were all there is, with a fall of the voice and a pause at its end. Shorter than this
# (20 letters or 6 Chinese characters, about 1.3 s) that sounds like a list, and is no sooner heard for it.
CLAUSE_FRAMES = expected_frames("x" * 20)
SPACE_BEFORE_WORD = re.compile(r"\s+(?=[^\W_])")


class Splitter:
    """Takes a text as it comes and gives out the parts that are certain. What it gives depends on the calls only.

    Parts have no white space around them and always something to speak: punctuation alone stays with its neighbour.
    In order they hold every character of the text but the white space where it was cut. So a cut is certain only when
    the first letter or digit behind it has come, which also tells "e.g. this" from the end of a sentence.

    No part has more than ``longest`` characters: one that would is cut at its last sentence, else clause, else white
    space, else anywhere. Only punctuation that no part has room for is left out.
    """

    def __init__(self, split: Split, longest: int | None = None) -> None:
        self._split = split
        self._longest = longest
        self._text = ""  # not given out yet; starts with no white space
        self._decided = 0  # no certain cut lies before here
        self._later = 0  # where the last text that was added starts

    def add(self, text: str) -> list[str]:
        """More text; the parts that are complete now."""
        before, self._text = len(self._text), self._text + text if self._text else text.lstrip()
        parts: list[str] = []
        if not SPOKEN.search(text):  # No cut becomes certain.
            return parts
        self._later = before
        while end := self._certain_end():
            parts += self._take(end)
        return parts

    def flush(self) -> list[str]:
        """All parts of the text that has come. Punctuation that comes after it has no neighbour and is left out.

        Symbols that have a name are a part if there is no word.
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
        """There is text to speak that may still be part of a longer part."""
        return is_readable(self._text)

    def _certain_end(self, *, is_whole: bool = False) -> int:
        """Where the first part ends, 0 if that is not certain, the end of the text if there is too much for a part."""
        if self._split is Split.NONE:
            return 0
        last = last_spoken(self._text)
        too_much = None if self._longest is None else SPOKEN.search(self._text, self._longest)
        most = None if too_much is None else too_much.start()  # A part that ends behind it is shortened anyway.
        clauses = self._split is Split.CLAUSE
        for cut, is_sentence in _cuts(self._text, clauses, self._decided, most=most, is_whole=is_whole):
            if is_sentence is None:
                self._decided = cut
                break
            if self._split is Split.AUTO and cut > self._later:  # what came at once is one part
                break
            return cut
        else:
            self._decided = last + 1
        return len(self._text) if self._longest is not None and last >= self._longest else 0

    def _take(self, end: int) -> list[str]:
        """Cut off the text up to ``end``, or as much of it as one part may hold."""
        part = self._text[:end].rstrip()
        if self._longest is not None and len(part) > self._longest:
            part, end = _shortened(part, self._longest)
        rest = self._text[end:].lstrip()
        self._later -= len(self._text) - len(rest)
        self._text = rest
        self._decided = 0
        return [part] if part else []


def certain_end_past(text: str, longest: int, passed: int) -> int:
    """The first end of a sentence behind ``longest`` characters, of a word behind half as many again; 0: not yet.

    What was ``passed`` already is not cut any more.
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
    """Return the number of characters that stay in this part, whatever text follows.

    After ``longest`` characters a mark may turn out to end the part. After a quotation that takes some more letters.
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
    """Certain places to cut, and whether a sentence ends there (else a clause), with something to speak on each side.

    Nothing that comes later moves one: each depends on the text up to the next letter or digit only, behind a quotation
    on the next `QUOTATIVE_CHARS`. If these have not come yet, the place is the last, with None. Marks behind ``most``
    are not looked at.
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
    """The first part of a text that is too long for one, and how much of the text it uses up.

    The part is empty where the text starts with more punctuation than a part may hold.
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
    """The last place from ``most`` down to ``least`` that parts no letter from its marks and no joined emoji."""
    joined = (
        place
        for place in range(most, least, -1)
        if unicodedata.category(text[place])[0] != "M" and "\u200d" not in text[place - 1 : place + 1]
    )
    return next(joined, least)


def _first_spoken(text: str) -> int:
    return next(place for place, character in enumerate(text) if character.isalnum())


def last_spoken(text: str) -> int:
    """Where the last letter or digit is; -1 if there is none."""
    return next((place for place in range(len(text) - 1, -1, -1) if text[place].isalnum()), -1)
