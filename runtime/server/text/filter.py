"""Applies a request's ``text_filter`` and its dictionary to its text before it is spoken; shared by all dialects."""

from __future__ import annotations

from typing import Literal, Protocol

from runtime.markdown.growing import GrowingMarkdown
from runtime.shared.pronouncing import Dictionary, GrowingPronunciation

FilterName = Literal["none", "markdown"]


class TextFilter(Protocol):
    """One growing text. What the methods return, joined, is what is to be spoken of it."""

    def add(self, text: str) -> str:
        """Take more text and return what is certain of it."""
        ...

    def flush(self) -> str:
        """Return what was held back, because it is to be spoken though the text goes on."""
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


def text_filter(name: FilterName, dictionary: Dictionary | None = None) -> TextFilter:
    """Return what filters one text; with a dictionary words are said as it has them."""
    by_name = GrowingMarkdown() if name == "markdown" else Unfiltered()
    return by_name if dictionary is None else InTurn(by_name, GrowingPronunciation(dictionary))


def filtered(name: FilterName, text: str, dictionary: Dictionary | None = None) -> str:
    """Return what is to be spoken of a whole text."""
    growing = text_filter(name, dictionary)
    return growing.add(text) + growing.finish()
