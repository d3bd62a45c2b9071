"""Text filters that remove markup and apply pronunciations before the text is spoken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

    See `FilterPipeline` for the methods.
    """

    def feed_text(self, text: str) -> str: ...

    def flush(self) -> str: ...

    def finish(self) -> str: ...


class FilterPipeline:
    """Text filters that run one after another on pieces of the input.

    The text to speak is the concatenation of the results of all calls. The calling thread sleeps after a piece if
    necessary, which leaves CPU time to the engine.
    """

    def __init__(self, stages: Sequence[TextFilter]) -> None:
        self._stages = stages

    def feed_text(self, text: str) -> str:
        """Append text and return the new filtered text that is final.

        Filtered text that later input could change is held back.
        """
        output = []
        for piece in _pieces(text):
            for stage in self._stages:
                piece = stage.feed_text(piece)
            output.append(piece)
            sleep_if_throttled()
        return "".join(output)

    def flush(self) -> str:
        """Return the filtered text that was held back, although more text may follow."""
        text = ""
        for stage in self._stages:
            text = stage.feed_text(text) + stage.flush()
        return text

    def finish(self) -> str:
        """End the text and return the filtered text that was held back."""
        text = ""
        for stage in self._stages:
            text = stage.feed_text(text) + stage.finish()
        return text


def create_text_filters(
    name: FilterName, dictionary: Dictionary | None = None, *, spells: bool = False
) -> list[TextFilter]:
    """Create the text filters with this name, followed by the replacements of `dictionary`.

    Args:
        name: Name of the filters: "markdown", or "none" for no filter.
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
    return stages


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
    growing = FilterPipeline(create_text_filters(name, dictionary(), spells=spells))
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
