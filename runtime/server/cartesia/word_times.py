"""Estimates when each word is spoken, without an aligner. Clients move their transcript along by it.

While the sound is made a word is placed at an ordinary pace, and told once the sound has passed it; what is left at the
end shares the rest of the sound by length. Times only grow, and no word is told twice.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

from runtime.request import SAMPLE_RATE

_PER_LETTER_S = 0.07  # a letter and the space behind it, at some 14 a second
_PER_SYLLABLE_S = 0.22
# Scripts without spaces, where a character is a syllable or more, and so a word of its own.
_SYLLABIC = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_UNSPACED = _SYLLABIC.replace("\uac00-\ud7af", "")  # Korean is written with spaces
_WORD = re.compile(rf"[{_UNSPACED}][^\s\w]*|[^\s{_UNSPACED}]+")
_IS_SYLLABLE = re.compile(rf"[{_SYLLABIC}]")


@dataclass(frozen=True, slots=True)
class TimedWords:
    """Times in seconds from the beginning of the sound."""

    words: list[str] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)

    def add(self, word: str, start: float, end: float) -> None:
        self.words.append(word)
        self.start.append(round(start, 3))
        self.end.append(round(end, 3))


class WordTimes:
    """The words of one growing text beside its growing sound."""

    def __init__(self) -> None:
        self._tail = ""  # may still grow into a longer word
        self._words: deque[str] = deque()
        self._samples = 0
        self._told_until = 0.0  # seconds

    def add(self, text: str) -> None:
        """Take more text."""
        self._tail += text
        words = list(_WORD.finditer(self._tail))
        self._words.extend(word.group() for word in words[:-1])
        self._tail = self._tail[words[-1].start() :] if words else ""

    def hear(self, samples: int) -> TimedWords:
        """Take so much more sound and return the words that are over by now."""
        self._samples += samples
        now, told = self._samples / SAMPLE_RATE, TimedWords()
        while self._words and (end := self._told_until + _seconds(self._words[0])) <= now:
            told.add(self._words.popleft(), self._told_until, end)
            self._told_until = end
        return told

    def hear_until(self, samples: int) -> TimedWords:
        """Take the sound up to so many samples in all, and return the words that are over by now."""
        return self.hear(samples - self._samples)

    def finish(self) -> TimedWords:
        """Return the words that are left, spread over the sound that is left."""
        self._words.extend(word.group() for word in _WORD.finditer(self._tail))
        self._tail, told = "", TimedWords()
        needed = sum(map(_seconds, self._words))
        left = max(0.0, self._samples / SAMPLE_RATE - self._told_until)
        for word in self._words:
            end = self._told_until + _seconds(word) / needed * left
            told.add(word, self._told_until, end)
            self._told_until = end
        self._words.clear()
        return told


def _seconds(word: str) -> float:
    syllables = len(_IS_SYLLABLE.findall(word))
    return syllables * _PER_SYLLABLE_S + (len(word) - syllables + 1) * _PER_LETTER_S
