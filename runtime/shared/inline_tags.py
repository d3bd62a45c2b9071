"""Inline tags of growing text: `[excited]` sets a style for what follows, `[pause:500ms]` is silence.

A tag is what stands between two square brackets on one line and holds a letter. ``pause`` and ``break`` are silences,
half a second without a number, which is seconds without a unit; ``neutral`` ends a style; any other words are the
style. Brackets without a letter, or without their other half, are text. SSML's ``<break time="1s"/>`` is a silence
too, if the request allows it; all other SSML tags are left out. However the text is cut into pieces, the same items
come of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import regex

from runtime.errors import BadRequest, PausesTooLong, PauseTooLong, TagTooLong
from runtime.settings import Limits
from runtime.shared import ssml

NEUTRAL = "neutral"
DEFAULT_PAUSE = "0.5"  # seconds

_BRACKET = re.compile(r"\[[^\[\]\n]*")
_OPENERS = {True: re.compile(r"[\[<]"), False: re.compile("<")}  # With square brackets as tags, and without.
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


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An SSML tag that nothing comes of."""


Item = str | Style | Pause | LeftOut


class InlineTags:
    """One text. What `add` and `finish` return is all of it, in order.

    Args:
        brackets: square brackets are tags; else they are text.
        max_break_s: a longer ``<break>`` is cut to so many seconds; None: it is left out.
    """

    def __init__(self, limits: Limits, *, brackets: bool = True, max_break_s: float | None = math.inf) -> None:
        self._limits = limits
        self._brackets = brackets
        self._max_break_s = max_break_s
        self._tail = ""  # what may become a tag
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
        return self._items(text, brackets=self._brackets)

    def finish(self) -> list[Item]:
        """Return what was held back: a bracket is text, because nothing has closed it."""
        tail, self._tail = self._tail, ""
        return self._items(tail, brackets=False, is_whole=True)

    def _items(self, text: str, *, brackets: bool, is_whole: bool = False) -> list[Item]:
        items: list[Item] = []
        start = at = 0
        openers = _OPENERS[brackets]
        while opener := openers.search(text, at):
            at = opener.start()
            end = self._bracket_end(text, at) if opener[0] == "[" else ssml.tag_end(text, at, is_whole=is_whole)
            if end is None:
                self._tail = text[at:]
                text = text[:at]
                break
            if end == at:  # It is text.
                at += 1
                continue
            items += self._plain(text[start:at])
            items += [self._tag(text[at + 1 : end - 1])] if opener[0] == "[" else self._ssml(text[at:end])
            start = at = end
        return [*items, *self._plain(text[start:])]

    def _bracket_end(self, text: str, at: int) -> int | None:
        """Return where the tag ends that begins with this bracket: there if it is none, None if more text decides."""
        found = _BRACKET.match(text, at)
        assert found is not None
        end, inside = found.end(), found[0][1:]
        if text[end : end + 1] == "]":
            return end + 1 if _holds_letter(inside) else at
        if end < len(text):
            return at
        if len(inside) <= self._limits.max_instruct_chars:
            return None
        self._open = _holds_letter(inside)
        return at

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
            return self._pause(ssml.seconds_of(pause[1] or DEFAULT_PAUSE, pause[2]))
        return Style("" if words.casefold() == NEUTRAL else words)

    def _ssml(self, tag: str) -> Iterator[Item]:
        """Return the items of an SSML tag."""
        seconds = ssml.break_seconds(tag)
        is_acted_on = seconds is not None and self._max_break_s is not None
        if ssml.is_separator(tag) and not is_acted_on:
            yield from self._plain("" if self._last.isspace() else " ")
        self._joins = self._last.isspace()
        if seconds is not None and self._max_break_s is not None:
            yield self._pause(min(seconds, self._max_break_s))
        elif not tag.startswith("</"):
            yield LeftOut()

    def _pause(self, seconds: float) -> Pause:
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


def tag_pattern(limits: Limits, *, brackets: bool) -> str:
    """Return a pattern of what may be a tag, in a text in which square brackets are tags or are not."""
    return f"{may_be_tag(limits.max_instruct_chars)}|{ssml.PATTERN}" if brackets else ssml.PATTERN


class ReadText:
    """One growing text without its tags, as people read it. What asks for too much is the engine's to refuse."""

    def __init__(self, limits: Limits, *, brackets: bool) -> None:
        self._tags = InlineTags(limits, brackets=brackets)
        self._last = " "  # character that was given out

    def add(self, text: str) -> str:
        """Take more text and return what is certain of it."""
        return self._words(self._tags.add, text)

    def finish(self) -> str:
        """Return what was held back."""
        return self._words(self._tags.finish)

    def _words(self, items_of: Callable[..., Iterable[Item]], *given: str) -> str:
        words = ""
        try:
            for item in items_of(*given):
                if isinstance(item, str):
                    words += item
                elif isinstance(item, Pause) and not (words or self._last)[-1].isspace():
                    words += " "
        except BadRequest:
            return ""
        self._last = words[-1:] or self._last
        return words


def untagged(text: str, limit: int = 500) -> str:
    """Return a text without its tags, as people read it."""

    def left(found: regex.Match[str]) -> str:
        if found[2].startswith("<"):
            return found[1] or (" " if found.start() and ssml.is_separator(found[2]) else "")
        return (found[1] or "") if _holds_letter(found[2]) else found[0]

    return regex.sub(rf"(^|\s)?({may_be_tag(limit)}|{ssml.PATTERN})[ \t]*", left, text, flags=regex.IGNORECASE)


def last_style(text: str, limits: Limits) -> str:
    """Return the last tag of a text that says how what follows is spoken; empty where none does."""
    tags = (found[0] for found in re.finditer(may_be_tag(limits.max_instruct_chars), text))
    styles = [tag for tag in tags if _holds_letter(tag) and not _PAUSE.fullmatch(" ".join(tag[1:-1].split()))]
    return styles[-1] if styles else ""


def _holds_letter(text: str) -> bool:
    return any(map(str.isalpha, text))
