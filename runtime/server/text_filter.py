"""Applies a request's ``text_filter`` to its text before it is spoken; shared by all dialects."""

from __future__ import annotations

from typing import Literal, Protocol

from runtime.markdown.growing import GrowingMarkdown

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


def text_filter(name: FilterName) -> TextFilter:
    """Return what filters one text."""
    return GrowingMarkdown() if name == "markdown" else Unfiltered()


def filtered(name: FilterName, text: str) -> str:
    """Return what is to be spoken of a whole text."""
    growing = text_filter(name)
    return growing.add(text) + growing.finish()
