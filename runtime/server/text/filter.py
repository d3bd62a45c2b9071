"""Text filters of requests: ``text_filter``, then the pronunciation dictionary; for all dialects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, Protocol

from runtime.markdown.growing import GrowingMarkdown
from runtime.server.text.text_thread import rest
from runtime.shared.pronouncing import Dictionary, GrowingPronunciation

FilterName = Literal["none", "markdown"]

PIECE_CHARS = 256  # 5 ms of work at most.


class TextFilter(Protocol):
    """One growing text. What the methods return, joined, is what is to be spoken of it."""

    def add(self, text: str) -> str:
        """Take more text and return what is certain of it."""
        ...

    def flush(self) -> str:
        """Return the held text to be spoken now; more text may follow."""
        ...

    def finish(self) -> str:
        """Return what was held back, because the text is complete."""
        ...


class Unfiltered:
    """Speaks a text as it is."""

    def add(self, text: str) -> str:
        return text

    def flush(self) -> str:
        return ""

    def finish(self) -> str:
        return ""


class InTurn:
    """Filters what another filter leaves."""

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
    """Gives another filter a long text piece by piece, with a rest after each."""

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


def text_filter(name: FilterName, dictionary: Dictionary | None = None) -> TextFilter:
    """Return what filters one text; with a dictionary words are said as it has them."""
    if name == "none" and dictionary is None:
        return Unfiltered()
    by_name = GrowingMarkdown() if name == "markdown" else Unfiltered()
    return InPieces(by_name if dictionary is None else InTurn(by_name, GrowingPronunciation(dictionary)))


def filtered(name: FilterName, text: str, dictionary: Callable[[], Dictionary | None]) -> Iterator[str]:
    """Yield what is to be spoken of a whole text, as each `PIECE_CHARS` of it are read."""
    growing = text_filter(name, dictionary())
    for piece in _pieces(text):
        yield growing.add(piece)
    yield growing.finish()


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS))
