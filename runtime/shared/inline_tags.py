"""Reads inline tags out of a growing text: `[excited]` names a style for what follows, `[pause:500ms]` a silence.

A tag is what stands between two square brackets on one line and holds a letter. ``pause`` and ``break`` are silences,
half a second without a number, which is seconds without a unit; ``neutral`` ends a style; any other words are the
style. Brackets without a letter, or without their other half, are text. However the text is cut into pieces, the same
items come of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from runtime.errors import BadRequest, PausesTooLong, PauseTooLong, TagTooLong
from runtime.settings import Limits

NEUTRAL = "neutral"
DEFAULT_PAUSE = "0.5"  # seconds

_BRACKET = re.compile(r"\[[^\[\]\n]*")
_NOT_INSIDE = re.compile(r"[\[\]\n]")
_PAUSE = re.compile(
    r"(?:pause|break)(?:\s*[\s:=]\s*(\d{1,6}(?:[.,]\d{1,6})?)\s*(ms|milliseconds?|s|secs?|seconds?)?)?", re.IGNORECASE
)
_LIKE_PAUSE = re.compile(r"pause\b|break\s*[:=\d]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Style:
    """How what follows is spoken; without words as the request says."""

    words: str

    @property
    def looks_like_pause(self) -> bool:
        """Whether it begins as a silence does, of a length that is none."""
        return _LIKE_PAUSE.match(self.words) is not None


@dataclass(frozen=True, slots=True)
class Pause:
    """A silence at this place."""

    seconds: float


Item = str | Style | Pause


class InlineTags:
    """One text. What `add` and `finish` return is all of it, in order."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._tail = ""  # a bracket that may become a tag
        self._open: bool | None = None  # a bracket was given out as text and is not closed: whether it holds a letter
        self._last = " "  # character that was given out
        self._joins = False  # white space that comes next stands beside other white space, with a tag between
        self._paused_s = 0.0

    def add(self, text: str) -> list[Item]:
        """Take more text and return what is certain of it.

        Raises:
            TagTooLong, PauseTooLong, PausesTooLong: it asks for more than the limits allow.
        """
        text, self._tail = self._tail + text, ""
        if self._open is not None:
            self._look_for_its_end(text)
        items: list[Item] = []
        start = 0
        for bracket in _BRACKET.finditer(text):
            end = bracket.end()
            inside = bracket[0][1:]
            if text[end : end + 1] == "]" and _holds_letter(inside):
                items += self._plain(text[start : bracket.start()])
                items.append(self._tag(inside))
                start = end + 1
            elif end == len(text) and len(inside) > self._limits.max_instruct_chars:
                self._open = _holds_letter(inside)
            elif end == len(text):
                self._tail = bracket[0]
                text = text[: bracket.start()]
        return [*items, *self._plain(text[start:])]

    def finish(self) -> list[Item]:
        """Return what was held back: it is text, because nothing has closed it."""
        tail, self._tail = self._tail, ""
        return [*self._plain(tail)]

    def _look_for_its_end(self, text: str) -> None:
        found = _NOT_INSIDE.search(text)
        holds_letter = self._open or _holds_letter(text[: found.start()] if found else text)
        if found is not None and found[0] == "]" and holds_letter:
            raise TagTooLong(param="text", limit=self._limits.max_instruct_chars)
        self._open = None if found else holds_letter

    def _tag(self, inside: str) -> Style | Pause:
        self._joins = self._last.isspace()
        if len(inside) > self._limits.max_instruct_chars:
            raise TagTooLong(param="text", limit=self._limits.max_instruct_chars)
        words = " ".join(inside.split())
        if pause := _PAUSE.fullmatch(words):
            return self._pause(pause)
        return Style("" if words.casefold() == NEUTRAL else words)

    def _pause(self, found: re.Match[str]) -> Pause:
        seconds = float((found[1] or DEFAULT_PAUSE).replace(",", ".")) / (
            1000 if (found[2] or "").lower().startswith("m") else 1
        )
        if seconds > (limit := self._limits.max_pause_s):
            raise PauseTooLong(param="text", seconds=seconds, limit=limit)
        self._paused_s += seconds
        if self._paused_s > (limit := self._limits.max_pauses_s):
            raise PausesTooLong(param="text", limit=limit)
        return Pause(seconds)

    def _plain(self, text: str) -> Iterator[str]:
        """Text without the white space that a tag would leave doubled."""
        if self._joins:
            text = text.lstrip(" \t")
        if text:
            self._joins = False
            self._last = text[-1]
            yield text


def may_be_tag(limit: int) -> str:
    """Return a pattern of what may be a tag, with so many characters between its brackets."""
    return rf"\[[^\[\]\n]{{0,{limit}}}\]"


class ReadText:
    """One growing text without its tags, as people read it. What asks for too much is the engine's to refuse."""

    def __init__(self, limits: Limits) -> None:
        self._tags = InlineTags(limits)

    def add(self, text: str) -> str:
        """Take more text and return what is certain of it."""
        try:
            return _words(self._tags.add(text))
        except BadRequest:
            return ""

    def finish(self) -> str:
        """Return what was held back."""
        return _words(self._tags.finish())


def _words(items: Iterable[Item]) -> str:
    return "".join(item for item in items if isinstance(item, str))


def untagged(text: str, limit: int = 500) -> str:
    """Return a text without its tags, as people read it."""

    def left(found: re.Match[str]) -> str:
        return (found[1] or "") if _holds_letter(found[2]) else found[0]

    return re.sub(rf"(^|\s)?({may_be_tag(limit)})[ \t]*", left, text)


def last_style(text: str, limits: Limits) -> str:
    """Return the last tag of a text that says how what follows is spoken; empty where none does."""
    tags = (found[0] for found in re.finditer(may_be_tag(limits.max_instruct_chars), text))
    styles = [tag for tag in tags if _holds_letter(tag) and not _PAUSE.fullmatch(" ".join(tag[1:-1].split()))]
    return styles[-1] if styles else ""


def _holds_letter(text: str) -> bool:
    return any(map(str.isalpha, text))
