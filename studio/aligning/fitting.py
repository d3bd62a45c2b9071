"""Validation of the word times from an aligner, and conversion to the displayed words."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import pairwise

from runtime.shared.text.word_times import TimedWords, divide_time_by_length, spans_of
from studio.aligning.plugin import Placed

SLACK_S = 0.05  # Maximum overrun of the last word in seconds, because aligners round times to frames.


class MisfitError(ValueError):
    """Error for an aligner that returns inconsistent words or times.

    The message contains no text of the recording, because it is logged.
    """


def align_to_text(placed: Iterable[Placed], text: str, seconds: float) -> TimedWords:
    """Validate the words and times from an aligner, and spell the words as in `text`.

    Args:
        placed: Words with their start and end times in seconds.
        text: Text of the recording.
        seconds: Duration of the recording.

    Returns:
        The words as in `text`, with their start and end times in seconds.

    Raises:
        MisfitError: The words differ from the text, or the times are not ascending or exceed the audio's duration.
    """
    letters = [at for at, character in enumerate(text) if character.isalnum()]
    firsts: list[int] = []
    times: list[tuple[float, float]] = []
    read, earliest = 0, 0.0
    for word, start, end in placed:
        spoken = [character for character in word if character.isalnum()]
        theirs = letters[read : read + len(spoken)]
        if not spoken or [text[at].lower() for at in theirs] != [character.lower() for character in spoken]:
            raise MisfitError("its words differ from the text")
        if not earliest <= start <= end <= seconds + SLACK_S:  # NaN fails all comparisons, so it is refused too.
            raise MisfitError("its times are not in order or not within the audio")
        firsts.append(theirs[0])
        times.append((start, min(end, seconds)))
        read, earliest = read + len(spoken), start
    if read != len(letters):
        raise MisfitError("its words differ from the text")
    cuts = [0, *(_word_start(text, first) for first in firsts[1:]), len(text)]
    timed_words = TimedWords()
    for (start, end), (begins, ends) in zip(times, pairwise(cuts), strict=True):
        timed_words.append_word(text[begins:ends], min(start, end), end)
    return timed_words


def map_to_displayed_words(text: str, spoken: TimedWords) -> TimedWords:
    """Convert the times of spoken words to times of the words that are displayed.

    Replacements can change words, for example "Dr." is spoken as "doctor". Words that are equal in both texts keep
    their times. The time between two equal words is divided among the changed words.
    """
    spans, timed_words = spans_of(text), TimedWords()
    matcher = SequenceMatcher(None, spoken.words, [span.strip() for span in spans], autojunk=False)
    for kind, first, last, begins, ends in matcher.get_opcodes():
        if kind == "equal":
            for span, at in zip(spans[begins:ends], range(first, last), strict=True):
                timed_words.append_word(span, spoken.start[at], spoken.end[at])
        else:
            start = spoken.start[first] if first < last else (timed_words.end or [0.0])[-1]
            timed_words.join(
                divide_time_by_length(spans[begins:ends], start, max(start, spoken.end[last - 1]) if last else start)
            )
    return timed_words


def _word_start(text: str, first: int) -> int:
    """Return the start index of a word, including its opening brackets and quotes."""
    while first and not text[first - 1].isspace() and not text[first - 1].isalnum():
        first -= 1
    return first
