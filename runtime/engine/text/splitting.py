"""Division of text into segments, which the model speaks one after another."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from runtime.request import Split
from runtime.shared.text.sentence_ends import MARK, SPOKEN, ends_sentence
from runtime.shared.text.speech_rate import expected_frames, is_readable

# Minimum number of letters in the first clause, which take about 1.3 s (as do 6 Chinese characters). The model speaks
# each clause with a falling pitch and a pause at its end, so several shorter clauses would sound like a list.
CLAUSE_CHARS = 20
CLAUSE_FRAMES = expected_frames("x" * CLAUSE_CHARS)
MARK_START = re.compile(r"[.!?…。！？｡\n，；：、,;:—–-]")  # First characters of the matches of `MARK`.
SPACE_BEFORE_WORD = re.compile(r"\s+(?=[^\W_])")


class SegmentSplitter:
    """Incremental splitter that returns a segment as soon as later text cannot change it.

    Segments have no surrounding white space and at least one letter or digit. Punctuation belongs to the segment of the
    adjacent text. Together, the segments contain every character of the text except white space at the cuts. Therefore
    a cut is certain only when the next letter or digit has arrived. The next letter also distinguishes "e.g. this" from
    the end of a sentence.

    A segment has at most `max_chars` characters. Longer text is cut at the last sentence, clause or white space, or
    else between any two characters. Only punctuation that does not fit into a segment is dropped.
    """

    def __init__(self, split: Split, max_chars: int | None = None) -> None:
        self._split = split
        self._max_chars = max_chars
        self._text = ""  # Text without leading white space that has not been returned yet.
        self._decided = 0  # Index in the text before which no cut is possible any more.
        self._later = 0  # Index in the text at which the text of the last `feed_text` call starts.

    def feed_text(self, text: str) -> list[str]:
        """Append text, and return the segments that are complete now."""
        before, self._text = len(self._text), self._text + text if self._text else text.lstrip()
        parts: list[str] = []
        if not SPOKEN.search(text):  # No cut is certain before the first letter or digit.
            return parts
        self._later = before
        while end := self._certain_end():
            parts += self._take_parts(end)
        return parts

    def flush(self) -> list[str]:
        """Return the remaining text as segments, including an incomplete last sentence.

        If the remaining text has no letters or digits, symbols with a spoken name still form a segment. After a flush,
        punctuation before the next letter or digit is dropped.
        """
        is_one_segment = self._split in (Split.AUTO, Split.NONE)
        parts: list[str] = []
        while SPOKEN.search(self._text):
            parts += self._take_parts((not is_one_segment and self._certain_end(is_whole=True)) or len(self._text))
        step = self._max_chars or len(self._text) or 1
        symbols = (self._text[start : start + step].strip() for start in range(0, len(self._text), step))
        parts += filter(is_readable, symbols)
        self._text = ""
        self._decided = 0
        self._later = 0
        return parts

    @property
    def has_pending_words(self) -> bool:
        """True if the pending text, which was not returned yet, contains something to speak."""
        return is_readable(self._text)

    def _certain_end(self, *, is_whole: bool = False) -> int:
        """Return the end of the first segment of the text.

        Returns:
            0 if the end is uncertain, the length of the text if the text is too long for a segment.
        """
        if self._split is Split.NONE:
            return 0
        last = last_spoken_index(self._text)
        too_much = None if self._max_chars is None else SPOKEN.search(self._text, self._max_chars)
        # A segment that ends after the index `max_cut` is too long and must be divided.
        max_cut = None if too_much is None else too_much.start()
        clauses = self._split is Split.CLAUSE
        for cut, is_sentence in _cuts(self._text, clauses, self._decided, max_cut=max_cut, is_whole=is_whole):
            if is_sentence is None:
                self._decided = cut
                break
            # The text of one `feed_text` call is not divided into segments.
            if self._split is Split.AUTO and cut > self._later:
                break
            return cut
        else:
            self._decided = last + 1
        return len(self._text) if self._max_chars is not None and last >= self._max_chars else 0

    def _take_parts(self, end: int) -> list[str]:
        """Remove and return the text up to `end`, or the part of it that fits into a segment."""
        part = self._text[:end].rstrip()
        if self._max_chars is not None and len(part) > self._max_chars:
            part, end = _shortened(part, self._max_chars)
        rest = self._text[end:].lstrip()
        self._later -= len(self._text) - len(rest)
        self._text = rest
        self._decided = 0
        return [part] if part else []


def find_sentence_end_after(text: str, max_chars: int, passed: int) -> int:
    """Return the index of the first sentence end after `max_chars` characters, or 0.

    If no sentence ends before 1.5 * `max_chars` characters, the result is the first word end after that number of
    characters. Ends before the index `passed` are ignored. The result is 0 if no end is certain yet.
    """
    first, max_cut = max(max_chars, passed), max_chars + max_chars // 2
    if last_spoken_index(text) < first:
        return 0
    space = next((index.end() for index in SPACE_BEFORE_WORD.finditer(text, max(first, max_cut))), 0)
    for cut, is_sentence in _cuts(text, False):
        if is_sentence is None or cut >= first:
            return (cut if is_sentence else 0) if not space or cut < space else space
    return space


def find_final_end(text: str, max_chars: int | None) -> int:
    """Return the number of leading characters that surely belong to the open segment.

    After `max_chars` characters, a punctuation mark may end the segment. After a quotation, the next letters determine
    if the segment ends.
    """
    settled = max(len(text) if max_chars is None else min(len(text), max_chars), last_spoken_index(text) + 1)
    if max_chars is None or settled <= max_chars:
        return settled
    open_mark = next((index for index, is_sentence in _cuts(text, False) if is_sentence is None), settled)
    return min(settled, max(max_chars, open_mark))


def _cuts(
    text: str,
    clauses: bool,
    start: int = 0,
    *,
    max_cut: int | None = None,
    known: int | None = None,
    is_whole: bool = False,
) -> Iterator[tuple[int, bool | None]]:
    """Yield the certain cuts as (index, True after a sentence or False after a clause).

    Both sides of a cut contain words. Later text does not move a cut, which depends only on the text up to the next
    letter or digit or, after a quotation, on the next `QUOTATIVE_CHARS` characters. If these characters have not
    arrived, the last result is (index, None). Punctuation after index `max_cut` is ignored.
    """
    first = follows = SPOKEN.search(text)
    stop = len(text) if max_cut is None else max_cut + 1
    # `MARK` is matched only at its possible first characters, so the time is linear in stop - start.
    while mark_start := MARK_START.search(text, start, stop):
        mark = MARK.match(text, mark_start.start())
        start = mark_start.end() if mark is None else mark.end()
        if mark is None:
            continue
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
    # Every character takes at least the time of a letter, so the first CLAUSE_CHARS characters show whether the clause
    # is long enough.
    return not number and expected_frames(text[: min(mark.end(), CLAUSE_CHARS)]) >= CLAUSE_FRAMES


def _shortened(text: str, max_chars: int) -> tuple[str, int]:
    """Return the first segment of overlong text, and the number of characters to remove.

    The segment is empty if the text starts with more punctuation than a segment may have.
    """
    first, last = _first_spoken(text), last_spoken_index(text)
    if first >= max_chars:
        return "", first
    if first == last:
        return text[:max_chars].rstrip(), len(text)
    max_cut = min(max_chars, last)
    best = {True: 0, False: 0}
    for cut, is_sentence in _cuts(text, True, max_cut=max_cut, known=max_cut + 1, is_whole=True):
        if cut > max_cut:
            break
        best[is_sentence is True] = cut
    space = next((index for index in range(max_cut, first, -1) if text[index].isspace()), 0)
    cut = best[True] or best[False] or space or _between_characters(text, first + 1, max_cut)
    return text[:cut].rstrip(), cut


def _between_characters(text: str, min_cut: int, max_cut: int) -> int:
    """Return the last index up to `max_cut` that splits no combined character or emoji."""
    joined = (
        index
        for index in range(max_cut, min_cut, -1)
        if unicodedata.category(text[index])[0] != "M" and "\u200d" not in text[index - 1 : index + 1]
    )
    return next(joined, min_cut)


def _first_spoken(text: str) -> int:
    return next(index for index, character in enumerate(text) if character.isalnum())


def last_spoken_index(text: str) -> int:
    """Return the index of the last letter or digit in a text, or -1 if there is none."""
    for index in range(len(text) - 1, -1, -1):
        if text[index].isalnum():
            return index
    return -1
