"""Text filter of a request (``text_filter``), followed by its pronunciation dictionary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Literal, Protocol

from runtime.markdown.growing import GrowingMarkdown
from runtime.markdown.thoughts import GrowingThoughts
from runtime.server.text.text_thread import rest
from runtime.shared.pronouncing import Dictionary, GrowingPronunciation
from runtime.shared.spelling import Spelling

FilterName = Literal["none", "markdown"]

PIECE_CHARS = 256  # Number of characters that are filtered in at most 5 ms.


class TextFilter(Protocol):
    """Protocol of an incremental text filter.

    The concatenated results are the text to speak.
    """

    def add(self, text: str) -> str:
        """Append text and return the text to speak that later text cannot change."""
        ...

    def flush(self) -> str:
        """Return the text that is held back, to be spoken now.

        More text may follow.
        """
        ...

    def finish(self) -> str:
        """Return the text that is held back at the end of the text."""
        ...


class Unfiltered:
    """Filter that leaves text unchanged."""

    def add(self, text: str) -> str:
        return text

    def flush(self) -> str:
        return ""

    def finish(self) -> str:
        return ""


class InTurn:
    """Filter that applies two filters one after another."""

    def __init__(self, first: TextFilter, second: TextFilter) -> None:
        self._first = first
        self._second = second

    def add(self, text: str) -> str:
        return self._second.add(self._first.add(text))

    def flush(self) -> str:
        return self._second.add(self._first.flush()) + self._second.flush()

    def finish(self) -> str:
        return self._second.add(self._first.finish()) + self._second.finish()


class InPieces:
    """Filter that processes long text in pieces and pauses after each."""

    def __init__(self, growing: TextFilter) -> None:
        self._growing = growing
        self.flush = growing.flush
        self.finish = growing.finish

    def add(self, text: str) -> str:
        return "".join(self._added(text))

    def _added(self, text: str) -> Iterator[str]:
        for piece in _pieces(text):
            yield self._growing.add(piece)
            rest()


def text_filter(name: FilterName, dictionary: Dictionary | None = None, *, spells: bool = False) -> TextFilter:
    """Return a filter for one text.

    Args:
        spells: True to replace ``<spell>`` tags.
    """
    stages: list[TextFilter] = []
    if spells:
        stages.append(Spelling())
    if name == "markdown":
        stages += [GrowingThoughts(), GrowingMarkdown()]
    if dictionary is not None:
        stages.append(GrowingPronunciation(dictionary))
    return InPieces(reduce(InTurn, stages)) if stages else Unfiltered()


def filtered(name: FilterName, text: str, dictionary: Callable[[], Dictionary | None]) -> Iterator[str]:
    """Yield the filtered text of a complete text, in pieces of `PIECE_CHARS`."""
    growing = text_filter(name, dictionary())
    for piece in _pieces(text):
        yield growing.add(piece)
    yield growing.finish()


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS))
