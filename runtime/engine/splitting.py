"""Where a text may be cut into parts that are spoken one after the other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from runtime.engine.text import expected_frames
from runtime.request import Split

# A clause is spoken as if it were all there is, with a fall of the voice and a pause at its end. Shorter than this
# (20 letters or 6 Chinese characters, about 1.3 s) that sounds like a list, and is no sooner heard for it.
CLAUSE_FRAMES = expected_frames("x" * 20)

WIDE_ENDS = "。！？｡"  # written without a space behind them

# A place to cut has no letter or digit in it. Quotes that both open and close belong to what is before them unless a
# letter follows; French puts a space before its closing one.
MARK = re.compile(
    r"""
    (?P<end> [.!?…。！？｡]+ (?: [)\]}）］】」』》〉”’»›] | ["'“‘«‹*_`] (?![^\W_]) | [ \u00a0\u202f]»(?![^\W_]) )* )
    | (?P<paragraph> \n\s*\n )
    | (?P<clause> [，；：、][）］】」』》〉”’]* | [,;:](?=\s) | —+ | (?<=\s)[-–]{1,3}(?=\s) )
    """,
    re.VERBOSE,
)
SPOKEN = re.compile(r"[^\W_]")  # a letter or a digit, as str.isalnum

# Words whose full stop ends no sentence: before a name, and before a number.
TITLE = re.compile(
    r"""
    mr | mrs | ms | mx | messrs | dr | prof | st | mt | rev | hon | gen | col | capt | lt | sgt | gov | sen | rep | pres
    | fr | hr | dott | ing | sig | sra | srta | vs | cf | ca | bzw | vgl | ggf | evtl | approx
    | ул | им | проф | рис | стр | гр | тов
    """,
    re.VERBOSE,
)
NUMBERED = re.compile(
    r"""
    no | nos | nr | nro | núm | num | figs? | art | vol | ch | sec | eq | ed | pp | av
    | jan | feb | mar | apr | aug | sept? | oct | nov | dec
    """,
    re.VERBOSE,
)
WORD_BEFORE = re.compile(r"\S*\Z")
LONGEST_WORD = 32  # characters that are looked at before a full stop
OPENERS = "\"'“„‚‘«‹»›([{¿¡*_`"


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
        if SPOKEN.search(text):
            self._later = len(self._text)
        self._text = self._text + text if self._text else text.lstrip()
        parts: list[str] = []
        while end := self._certain_end():
            if self._split is Split.AUTO and end > self._later:
                break
            parts += self._take(end)
        return parts

    def flush(self) -> list[str]:
        """All parts of the text that has come. Punctuation that comes after it has no neighbour and is left out."""
        whole = self._split in (Split.AUTO, Split.NONE)
        parts: list[str] = []
        while SPOKEN.search(self._text):
            parts += self._take((not whole and self._certain_end()) or len(self._text))
        self._text, self._decided, self._later = "", 0, 0
        return parts

    def finish(self) -> list[str]:
        """The text is complete: its last parts."""
        return self.flush()

    def _certain_end(self) -> int:
        """Where the first part ends, 0 if that is not certain, the end of the text if there is too much for a part."""
        if self._split is Split.NONE:
            return 0
        for cut, _ in _cuts(self._text, self._split is Split.CLAUSE, self._decided):
            return cut
        last = _last_spoken(self._text)
        if self._longest is not None and last >= self._longest and self._split is not Split.AUTO:
            return len(self._text)
        self._decided = last + 1
        return 0

    def _take(self, end: int) -> list[str]:
        """Cut off the text up to ``end``, or as much of it as one part may hold."""
        part = self._text[:end].rstrip()
        if self._longest is not None and len(part) > self._longest:
            part, end = _shortened(part, self._longest)
        rest = self._text[end:].lstrip()
        self._later -= len(self._text) - len(rest)
        self._text, self._decided = rest, 0
        return [part] if part else []


def _cuts(text: str, clauses: bool, start: int = 0) -> Iterator[tuple[int, bool]]:
    """Certain places to cut, and whether a sentence ends there (else a clause), with something to speak on each side.

    Nothing that comes later moves one: each depends on the text up to the next letter or digit only.
    """
    first = SPOKEN.search(text)
    for mark in MARK.finditer(text, start):
        follows = SPOKEN.search(text, mark.end())
        if follows is None:
            return
        if first is None or mark.start() < first.start():
            continue
        if mark["paragraph"]:
            yield mark.start(), True
        elif mark["end"] and _ends_sentence(text, mark, follows.start()):
            yield mark.end(), True
        elif clauses and mark["clause"] and _ends_clause(text, mark, follows.start()):
            yield mark.end(), False


def _ends_sentence(text: str, mark: re.Match[str], follows: int) -> bool:
    """Whether a sentence ends with this mark, given where the next letter or digit is."""
    ends, gap, following = mark["end"], text[mark.end() : follows], text[follows]
    if any(end in WIDE_ENDS for end in ends):
        return True
    if not gap[:1].isspace():
        return not gap and ends[-1] in "!?" and following.isalpha() and not _has_case(following)
    if following.islower():  # `"What?" he said` goes on, `What? he said` need not
        return ends.strip(".…") != "" and not ends.strip(".…!?")
    return ends[0] != "." or ends[1:2] in tuple(".…!?") or not _is_short(text, mark.start(), following)


def _is_short(text: str, stop: int, following: str) -> bool:
    """Whether the full stop there belongs to an abbreviation, an initial or an ordinal."""
    found = WORD_BEFORE.search(text[max(0, stop - LONGEST_WORD) : stop])
    word = found[0].lstrip(OPENERS) if found else ""
    last = re.split("[.-]", word)[-1].lower()  # of "z.B" and "J.-P"
    return (
        (len(last) == 1 and _has_case(last))
        or (len(word) <= 2 and word.isdecimal())
        or TITLE.fullmatch(last) is not None
        or (NUMBERED.fullmatch(last) is not None and following.isdecimal())
    )


def _ends_clause(text: str, mark: re.Match[str], follows: int) -> bool:
    number = mark.end() == follows and text[mark.start() - 1].isdecimal() and text[follows].isdecimal()
    return not number and expected_frames(text[: mark.end()]) >= CLAUSE_FRAMES


def _shortened(text: str, longest: int) -> tuple[str, int]:
    """The first part of a text that is too long for one, and how much of the text it uses up.

    The part is empty where the text starts with more punctuation than a part may hold.
    """
    first, last = _first_spoken(text), _last_spoken(text)
    if first >= longest:
        return "", first
    if first == last:
        return text[:longest].rstrip(), len(text)
    most = min(longest, last)
    best = {True: 0, False: 0}
    for cut, sentence in _cuts(text, True):
        if cut > most:
            break
        best[sentence] = cut
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


def _last_spoken(text: str) -> int:
    """Where the last letter or digit is; -1 if there is none."""
    return next((place for place in range(len(text) - 1, -1, -1) if text[place].isalnum()), -1)


def _has_case(character: str) -> bool:
    return character.lower() != character.upper()
