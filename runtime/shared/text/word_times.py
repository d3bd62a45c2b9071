"""Estimated times of spoken words, for highlighting text during playback.

The times are estimates, not measurements. While audio is generated, a normal speaking rate is assumed. A word is
returned when the audio is longer than the word's end time. After the last audio, the remaining audio is divided between
the remaining words by length. Times never decrease, and each word is returned once.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from runtime.request import SAMPLE_RATE

_PER_LETTER_S = 0.07  # Average duration in seconds of a letter, including white space (about 14 letters per second).
_PER_SYLLABLE_S = 0.22
# Chinese, Japanese and Korean characters. Each of them is at least one syllable.
_SYLLABIC = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
# Chinese and Japanese characters, each of which counts as a word. Korean is excluded, because it has spaces.
_UNSPACED_LETTERS = _SYLLABIC.replace("\uac00-\ud7af", "")
# Pattern of one word with the white space around it.
_WORD = re.compile(rf"\s*(?:[{_UNSPACED_LETTERS}][^\s\w]*|[^\s{_UNSPACED_LETTERS}]+)\s*")
MAX_CUE_CHARS = 84  # Maximum number of characters of a caption with two lines.
_ENDS = tuple(".!?…。！？")
_CLOSING_MARKS = "\"'”’»）)]"  # Characters that may follow the final mark of a sentence.
_IS_SYLLABLE = re.compile(rf"[{_SYLLABIC}]")


@dataclass(frozen=True, slots=True)
class TimedWords:
    """Words with their start and end times in seconds from the start of the audio.

    `spans` are the words with the white space around them, so the concatenated spans are the text.
    """

    spans: list[str] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        return [span.strip() for span in self.spans]

    def append_word(self, span: str, start: float, end: float) -> None:
        self.spans.append(span)
        self.start.append(round(start, 3))
        self.end.append(round(end, 3))

    def shifted_by(self, seconds: float) -> TimedWords:
        """Return a copy of the words with times that are later by this number of seconds."""
        if not seconds:
            return self
        start, end = ([round(time + seconds, 3) for time in times] for times in (self.start, self.end))
        return TimedWords(list(self.spans), start, end)

    def join(self, later: TimedWords) -> None:
        """Append the words of the audio that is played after this audio."""
        self.spans.extend(later.spans)
        self.start.extend(later.start)
        self.end.extend(later.end)


class WordTimes:
    """Estimator of the times at which the words of a streamed text are spoken."""

    def __init__(self) -> None:
        self._tail = ""  # End of the text. Later text may continue its last word.
        self._spans: deque[str] = deque()
        self._samples = 0
        self._returned_until_s = 0.0  # End time in seconds of the last returned word.

    def append_text(self, text: str) -> None:
        """Append text that will be spoken after the earlier text."""
        self._tail += text
        spans = list(_WORD.finditer(self._tail))
        self._spans.extend(span.group() for span in spans[:-1])
        self._tail = self._tail[spans[-1].start() :] if spans else self._tail

    def advance(self, samples: int) -> TimedWords:
        """Record that `samples` more samples were generated, and return the words that have ended."""
        self._samples += samples
        now, timed = self._samples / SAMPLE_RATE, TimedWords()
        while self._spans and (end := self._returned_until_s + _seconds(self._spans[0])) <= now:
            timed.append_word(self._spans.popleft(), self._returned_until_s, end)
            self._returned_until_s = end
        return timed

    def advance_to(self, samples: int) -> TimedWords:
        """Set the generated samples to `samples`, and return the words that have ended."""
        return self.advance(samples - self._samples)

    def finish(self) -> TimedWords:
        """End the text and return the words that were not returned before.

        The remaining time of the audio is divided between these words.
        """
        self._spans.extend(spans_of(self._tail))
        self._tail = ""
        timed = divide_time_by_length(
            self._spans, self._returned_until_s, max(self._returned_until_s, self._samples / SAMPLE_RATE)
        )
        self._spans.clear()
        return timed


def spans_of(text: str) -> list[str]:
    """Return the words of a complete text, each with its surrounding white space."""
    return [span.group() for span in _WORD.finditer(text)]


def divide_time_by_length(spans: Iterable[str], start: float, end: float) -> TimedWords:
    """Divide the time from `start` to `end` between words, and return the words with times.

    The time of a word is proportional to its length.

    Args:
        spans: Words with the white space around them.
        start: Start time in seconds.
        end: End time in seconds.
    """
    spans = list(spans)
    needed = list(accumulate(map(_seconds, spans), initial=0.0))
    scale = (end - start) / (needed[-1] or 1.0)
    times = [round(start + seconds * scale, 3) for seconds in needed]
    return TimedWords(spans, times[:-1], times[1:])


def cue_ranges(spans: list[str]) -> Iterator[tuple[int, int]]:
    """Divide words into captions, and yield the range of word indices of each caption.

    A range includes its start and excludes its end. A caption ends with a sentence, or before it would exceed
    `MAX_CUE_CHARS` characters.
    """
    first = chars = 0
    for at, span in enumerate(spans):
        if at > first and chars + len(span) > MAX_CUE_CHARS:
            yield first, at
            first = at
            chars = 0
        chars += len(span)
        if at + 1 == len(spans) or span.rstrip().rstrip(_CLOSING_MARKS).endswith(_ENDS):
            yield first, at + 1
            first, chars = at + 1, 0


def _seconds(span: str) -> float:
    word = span.strip()
    syllables = 0 if word.isascii() else len(_IS_SYLLABLE.findall(word))
    return syllables * _PER_SYLLABLE_S + (len(word) - syllables + 1) * _PER_LETTER_S
