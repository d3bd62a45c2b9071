"""Timed words as WebVTT: cues of a sentence or two lines, with a time for each word."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from runtime.shared.word_times import TimedWords

MAX_CUE_CHARS = 84  # Characters of a cue: two lines.
ENDS = tuple(".!?…。！？")
CLOSING = "\"'”’»）)]"  # Characters that may follow a sentence end.


def webvtt(words: TimedWords, note: str) -> str:
    """Return the captions; ``note`` says how they were made, to whoever opens the file."""
    cues = [_cue(words, first, last) for first, last in _cues(words.spans)]
    return "\n".join(["WEBVTT\n", f"NOTE {note}\n", *cues])


def _cues(spans: list[str]) -> Iterator[tuple[int, int]]:
    """From which word to which."""
    first = chars = 0
    for at, span in enumerate(spans):
        if at > first and chars + len(span) > MAX_CUE_CHARS:
            yield first, at
            first = at
            chars = 0
        chars += len(span)
        if at + 1 == len(spans) or span.rstrip().rstrip(CLOSING).endswith(ENDS):
            yield first, at + 1
            first, chars = at + 1, 0


def _cue(words: TimedWords, first: int, last: int) -> str:
    told, text = _time(words.start[first]), ""
    head = f"{told} --> {_time(max(words.end[last - 1], words.start[first] + 0.001))}"
    for at in range(first, last):
        time = _time(words.start[at])
        text += (f"<{time}>" if time > told else "") + escape(" ".join(words.spans[at].split()), quote=False)
        text += " " if words.spans[at][-1:].isspace() else ""
        told = max(told, time)
    return f"{head}\n{text.strip()}\n"


def _time(seconds: float) -> str:
    ms = round(1000 * seconds)
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}.{ms % 1000:03}"
