"""Inline tags in streamed text, such as `[excited]` and `[pause:500ms]`.

A tag is in square brackets on one line. ``pause`` and ``break`` are silences. Their default length is half a second,
and their default unit is seconds. A style applies to the following text, until ``neutral`` or another style. A style
consists of words that all describe a way of speaking (`runtime.shared.text.style_words`), or of any words after
``style:``. Other text in brackets, such as ``[sic]`` and ``[to Tom, his brother]``, is spoken.

SSML's ``<break time="1s"/>`` is a silence if the request allows breaks. Other SSML tags are dropped. The result does
not depend on how the text is divided into pieces.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import regex

from runtime.errors import BadRequest, PausesTooLong, PauseTooLong, TagTooLong
from runtime.settings import Limits
from runtime.shared.text import ssml
from runtime.shared.text.style_words import is_style_description

NEUTRAL = "neutral"
DEFAULT_PAUSE_S = "0.5"

_BRACKET = re.compile(r"\[[^\[\]\n]*")
# Characters that may start a tag. The key True means that square brackets are tags, and False that they are text.
_OPENERS = {True: re.compile(r"[\[<]"), False: re.compile("<")}
_PAUSE = re.compile(
    r"(?:pause|break)(?:\s*[\s:=]\s*(\d{1,6}(?:[.,]\d{1,6})?)\s*(ms|milliseconds?|s|secs?|seconds?)?)?", re.IGNORECASE
)
_ANY_STYLE = re.compile(r"\s*(?:style|风格|語氣|语气)\s*[:：=]\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Style:
    """Inline tag that changes the style of the following text, such as `[excited]`.

    An empty text restores the style of the request.
    """

    words: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Inline tag for a silence at this position in the text, with its length in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LeftOut:
    """SSML tag that is not supported and was removed from the text."""


@dataclass(frozen=True, slots=True)
class NoTag:
    """Marker before text in square brackets that is not a tag.

    The text itself is the next item.
    """


Item = str | Style | Pause | LeftOut | NoTag


class InlineTags:
    """Incremental parser of the inline tags in one text.

    The results of `feed_text` and `finish` are texts and tags in order.

    Args:
        brackets: True if square brackets may be tags, and False if they are text.
        max_break_s: Maximum length of a ``<break>`` in seconds. Longer breaks are shortened. None ignores all breaks.
    """

    def __init__(self, limits: Limits, *, brackets: bool = True, max_break_s: float | None = math.inf) -> None:
        self._limits = limits
        self._brackets = brackets
        self._max_break_s = max_break_s
        self._tail = ""  # Text that is held back because it may be the start of a tag.
        self._last = " "  # Last character that was returned.
        # True if white space after a removed tag must be dropped, because there is also white space before the tag.
        self._joins = False
        self._paused_s = 0.0

    def feed_text(self, text: str) -> list[Item]:
        """Append text and return the texts and tags in it that are final.

        The end of the text is held back while it may be an incomplete tag.

        Raises:
            TagTooLong, PauseTooLong, PausesTooLong: A tag exceeds the limits.
        """
        text, self._tail = self._tail + text, ""
        return self._items(text, brackets=self._brackets)

    def finish(self) -> list[Item]:
        """End the text and return the texts and tags that were held back.

        A bracket that is not closed is text.
        """
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
            if end == at:  # The bracket is ordinary text.
                at += 1
                continue
            items += self._plain(text[start:at])
            start = at
            if opener[0] == "<":
                items += self._ssml(text[at:end])
            elif (tag := _tag_of(text[at + 1 : end - 1])) is not None:
                items.append(self._placed(tag))
            else:
                items.append(NoTag())
                at += 1
                continue
            start = at = end
        return [*items, *self._plain(text[start:])]

    def _bracket_end(self, text: str, at: int) -> int | None:
        """Return the end index of a possible tag.

        Returns:
            `at` if there is no tag, or None if more text is needed to decide.

        Raises:
            TagTooLong: A style has more characters than the limit.
        """
        found = _BRACKET.match(text, at)
        assert found is not None
        end, inside = found.end(), found[0][1:]
        if len(inside) > self._limits.max_instruct_chars:
            if _ANY_STYLE.match(inside):
                raise TagTooLong(param="text", limit=self._limits.max_instruct_chars)
            return at
        if end == len(text):
            return None
        return end + 1 if text[end] == "]" and _holds_letter(inside) else at

    def _placed(self, tag: Style | Pause) -> Style | Pause:
        self._joins = self._last.isspace()
        return self._pause(tag.seconds) if isinstance(tag, Pause) else tag

    def _ssml(self, tag: str) -> Iterator[Item]:
        """Yield the items of an SSML tag."""
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
        """Yield text without the extra white space that a removed tag would leave."""
        if self._joins:
            text = text.lstrip(" \t")
        if text:
            self._joins = False
            self._last = text[-1]
            yield text


def _tag_of(inside: str) -> Style | Pause | None:
    content = " ".join(inside.split())
    if pause := _PAUSE.fullmatch(content):
        return Pause(ssml.seconds_of(pause[1] or DEFAULT_PAUSE_S, pause[2]))
    if content.casefold() == NEUTRAL:
        return Style("")
    if explicit := _ANY_STYLE.match(content):
        return Style(content[explicit.end() :])
    return Style(content) if is_style_description(content) else None


def is_tag(bracket: str) -> bool:
    """True if a text with its brackets is an inline tag, such as `[excited]`."""
    if bracket.startswith("<"):
        return not bracket.endswith(">") or ssml.TAG.match(bracket) is not None
    return _tag_of(bracket[1:-1]) is not None


def has_tag(text: str) -> bool:
    """True if the text contains an inline tag of at most 100 characters in square brackets."""
    return any(is_tag(found[0]) for found in re.finditer(may_be_tag(100), text))


def may_be_tag(limit: int) -> str:
    """Return a regular expression that matches square brackets which may be an inline tag.

    Args:
        limit: Maximum number of characters between the brackets.
    """
    return rf"\[[^\[\]\n]{{0,{limit}}}\]"


def tag_pattern(limits: Limits, *, brackets: bool) -> str:
    """Return a regular expression that matches text which may be a tag.

    Args:
        limits: Limits of tags.
        brackets: True to match tags in square brackets in addition to SSML tags.
    """
    pattern = f"{ssml.PATTERN}|{ssml.MAY_BECOME_TAG}"
    return f"{may_be_tag(limits.max_instruct_chars)}|{pattern}" if brackets else pattern


class ReadText:
    """Incremental filter that removes all tags from one text, for example to display it.

    The engine checks the limits of tags. This filter does not check them.
    """

    def __init__(self, limits: Limits, *, brackets: bool) -> None:
        self._tags = InlineTags(limits, brackets=brackets)
        self._last = " "  # Last character that was returned.

    def feed_text(self, text: str) -> str:
        """Append text and return the new text without tags.

        The end of the text is held back while it may be an incomplete tag.
        """
        return self._spoken_text(self._tags.feed_text, text)

    def finish(self) -> str:
        """End the text and return the text that was held back, without tags."""
        return self._spoken_text(self._tags.finish)

    def _spoken_text(self, items_of: Callable[..., Iterable[Item]], *arguments: str) -> str:
        text = ""
        try:
            for item in items_of(*arguments):
                if isinstance(item, str):
                    text += item
                elif isinstance(item, Pause) and not (text or self._last)[-1].isspace():
                    text += " "
        except BadRequest:
            return ""
        self._last = text[-1:] or self._last
        return text


def untagged(text: str) -> str:
    """Return a text without its tags, for display."""

    def left(found: regex.Match[str]) -> str:
        if found[2].startswith("<"):
            return found[1] or (" " if found.start() and ssml.is_separator(found[2]) else "")
        return found[0] if _tag_of(found[2][1:-1]) is None else found[1] or ""

    return regex.sub(rf"(^|\s)?({may_be_tag(500)}|{ssml.PATTERN})[ \t]*", left, text, flags=regex.IGNORECASE)


def last_style(text: str, limits: Limits) -> str:
    """Return the last style tag of a text, such as `[excited]`, or an empty string."""
    *_, last = ["", *style_tags(text, limits.max_instruct_chars)]
    return last


def style_tags(text: str, limit: int) -> list[str]:
    """Return the style tags of a text in order.

    Args:
        limit: Maximum number of characters between the brackets of a tag.
    """
    tags = (found[0] for found in re.finditer(may_be_tag(limit), text))
    return [tag for tag in tags if isinstance(_tag_of(tag[1:-1]), Style)]


def _holds_letter(text: str) -> bool:
    return any(map(str.isalpha, text))
