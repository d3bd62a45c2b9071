"""Text filters that remove markup and apply pronunciations before the text is spoken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Literal, Protocol

from runtime.markdown.growing import GrowingMarkdown
from runtime.markdown.thoughts import GrowingThoughts
from runtime.server.text.text_thread import sleep_if_throttled
from runtime.settings import Limits
from runtime.shared.text.inline_tags import ReadText
from runtime.shared.text.pronouncing import Dictionary, GrowingPronunciation
from runtime.shared.text.spelling import Spelling

FilterName = Literal["none", "markdown"]

PIECE_CHARS = 256  # Maximum number of characters that one filter call processes, which takes at most 5 ms.


class TextFilter(Protocol):
    """Interface of an incremental text filter.

    The text to speak is the concatenation of the results of all calls.
    """

    def feed_text(self, text: str) -> str:
        """Append text and return the new filtered text that is final.

        Filtered text that later input could change is held back.
        """
        ...

    def flush(self) -> str:
        """Return the filtered text that was held back, although more text may follow."""
        ...

    def finish(self) -> str:
        """End the text and return the filtered text that was held back."""
        ...


class IdentityFilter:
    """Text filter that returns its input unchanged."""

    def feed_text(self, text: str) -> str:
        return text

    def flush(self) -> str:
        return ""

    def finish(self) -> str:
        return ""


class ChainedFilter:
    """Text filter that passes the output of the filter `first` to the filter `second`."""

    def __init__(self, first: TextFilter, second: TextFilter) -> None:
        self._first = first
        self._second = second

    def feed_text(self, text: str) -> str:
        return self._second.feed_text(self._first.feed_text(text))

    def flush(self) -> str:
        return self._second.feed_text(self._first.flush()) + self._second.flush()

    def finish(self) -> str:
        return self._second.feed_text(self._first.finish()) + self._second.finish()


class PiecewiseFilter:
    """Text filter that divides long input into pieces, and sleeps after a piece if necessary.

    The pauses leave CPU time to the engine.
    """

    def __init__(self, growing: TextFilter) -> None:
        self._growing = growing
        self.flush = growing.flush
        self.finish = growing.finish

    def feed_text(self, text: str) -> str:
        return "".join(self._added(text))

    def _added(self, text: str) -> Iterator[str]:
        for piece in _pieces(text):
            yield self._growing.feed_text(piece)
            sleep_if_throttled()


def create_text_filter(name: FilterName, dictionary: Dictionary | None = None, *, spells: bool = False) -> TextFilter:
    """Create the text filter with this name, followed by the replacements of `dictionary`.

    Args:
        name: Name of the filter: "markdown", or "none" for no filter.
        dictionary: Pronunciations that replace words, or None.
        spells: True to spell the content of ``<spell>`` tags.
    """
    stages: list[TextFilter] = []
    if spells:
        stages.append(Spelling())
    if name == "markdown":
        stages += [GrowingThoughts(), GrowingMarkdown()]
    if dictionary is not None:
        stages.append(GrowingPronunciation(dictionary))
    return PiecewiseFilter(reduce(ChainedFilter, stages)) if stages else IdentityFilter()


def filter_text(
    name: FilterName, text: str, dictionary: Callable[[], Dictionary | None], *, spells: bool = False
) -> Iterator[str]:
    """Filter a complete text and yield the spoken text in pieces.

    Each piece is the result for at most `PIECE_CHARS` characters of input.

    Args:
        name: Name of the filter.
        text: Text to filter.
        dictionary: Function that returns the pronunciations, or None.
        spells: True to spell the content of ``<spell>`` tags.
    """
    growing = create_text_filter(name, dictionary(), spells=spells)
    for piece in _pieces(text):
        yield growing.feed_text(piece)
    yield growing.finish()


def remove_tags(text: str, limits: Limits, *, brackets: bool) -> Iterator[str]:
    """Remove the tags from a complete text and yield the remaining text in pieces.

    Each piece is the result for at most `PIECE_CHARS` characters of input.

    Args:
        text: Text with tags.
        limits: Limits of tags.
        brackets: True if square brackets may be tags.
    """
    read = ReadText(limits, brackets=brackets)
    for piece in _pieces(text):
        yield read.feed_text(piece)
    yield read.finish()


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS))
