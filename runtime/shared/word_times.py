"""Estimated times of spoken words, without an aligner, for following the text.

While the sound is made a word is placed at an ordinary pace, and told once the sound has passed it; what is left at the
end shares the rest of the sound by length. Times only grow, and no word is told twice.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from runtime.request import SAMPLE_RATE

_PER_LETTER_S = 0.07  # Seconds per letter with its share of white space, at about 14 letters a second.
_PER_SYLLABLE_S = 0.22
# Scripts without spaces, where a character is a syllable or more, and so a word of its own.
_SYLLABIC = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_UNSPACED = _SYLLABIC.replace("\uac00-\ud7af", "")  # Korean is written with spaces
_SPAN = re.compile(rf"\s*(?:[{_UNSPACED}][^\s\w]*|[^\s{_UNSPACED}]+)\s*")  # A word with the white space around it.
_IS_SYLLABLE = re.compile(rf"[{_SYLLABIC}]")


@dataclass(frozen=True, slots=True)
class TimedWords:
    """Times in seconds from the beginning of the sound. The spans, joined, are the text as it stands there."""

    spans: list[str] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        return [span.strip() for span in self.spans]

    def add(self, span: str, start: float, end: float) -> None:
        self.spans.append(span)
        self.start.append(round(start, 3))
        self.end.append(round(end, 3))

    def join(self, later: TimedWords) -> None:
        """Add words that are spoken after these."""
        self.spans.extend(later.spans)
        self.start.extend(later.start)
        self.end.extend(later.end)


class WordTimes:
    """The words of one growing text beside its growing sound."""

    def __init__(self) -> None:
        self._tail = ""  # May still grow into a longer word.
        self._spans: deque[str] = deque()
        self._samples = 0
        self._told_until = 0.0  # Seconds.

    def add(self, text: str) -> None:
        """Take more text."""
        self._tail += text
        spans = list(_SPAN.finditer(self._tail))
        self._spans.extend(span.group() for span in spans[:-1])
        self._tail = self._tail[spans[-1].start() :] if spans else self._tail

    def hear(self, samples: int) -> TimedWords:
        """Take so much more sound and return the words that are over by now."""
        self._samples += samples
        now, told = self._samples / SAMPLE_RATE, TimedWords()
        while self._spans and (end := self._told_until + _seconds(self._spans[0])) <= now:
            told.add(self._spans.popleft(), self._told_until, end)
            self._told_until = end
        return told

    def hear_until(self, samples: int) -> TimedWords:
        """Take the sound up to so many samples in all, and return the words that are over by now."""
        return self.hear(samples - self._samples)

    def finish(self) -> TimedWords:
        """Return the words that are left, spread over the sound that is left."""
        self._spans.extend(spans_of(self._tail))
        self._tail = ""
        told = shared_out(self._spans, self._told_until, max(self._told_until, self._samples / SAMPLE_RATE))
        self._spans.clear()
        return told


def spans_of(text: str) -> list[str]:
    """Return the words of a whole text, each with the white space around it."""
    return [span.group() for span in _SPAN.finditer(text)]


def shared_out(spans: Iterable[str], start: float, end: float) -> TimedWords:
    """Return these words one after the other between two times (seconds), each with a part as its length says."""
    spans, told = tuple(spans), TimedWords()
    needed, whole = sum(map(_seconds, spans)), end - start
    for span in spans:
        end = start + _seconds(span) / needed * whole
        told.add(span, start, end)
        start = end
    return told


def _seconds(span: str) -> float:
    word = span.strip()
    syllables = len(_IS_SYLLABLE.findall(word))
    return syllables * _PER_SYLLABLE_S + (len(word) - syllables + 1) * _PER_LETTER_S
