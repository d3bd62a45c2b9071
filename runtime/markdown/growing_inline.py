"""Finds how much of a growing paragraph is settled, whatever is written behind it."""

from __future__ import annotations

import re

from runtime.markdown.reading import may_precede_image, read_inline

LONGEST_HELD = 600  # characters that wait for the end of a link or of emphasis; behind so many there is none
MAX_HELD_BRACKETS = 8  # The parser looks for the end of each "[" anew, so that its time grows with their square.
_LOOK_AGAIN_EARLY_CHARS = 48

_MARKS = "\\`*_[]<&~!"
_MARK = re.compile(r"[\\`*_\[<&~!]")
_LAST = ")>;"  # with these an address, a tag or an entity ends, but for marks


class GrowingInline:
    """One paragraph after the other. What the methods return, joined, is what is to be spoken.

    Text without a mark is given out at once. Behind a mark it is held until markdown-it finds that nothing that
    may follow changes what is said of it. Where that is looked at depends on the text only and not on its pieces.
    """

    def __init__(self) -> None:
        self._held = ""  # begins with a mark
        self._before = ""  # the character before it, or one that means the same to what follows
        self._has_news = False  # something has come that may decide what is held
        self._look_at = 0  # Length at which it is read again: an eighth, later a half more than the last time.

    def add(self, text: str) -> str:
        """Take more text and return what is certain of it."""
        given, start = [], 0
        while start < len(text):
            if not self._held:
                end = self._next_mark(text, start)
                given.append(self._given(text[start:end]))
                self._held = text[end : end + 1]
                self._has_news = True
                self._look_at = 0
                start = end + 1
                continue
            given.append(self._add_one(text[start]))
            start += 1
        return "".join(given)

    def end_line(self) -> str:
        """The line is complete; return what is certain of it whether the paragraph goes on or not."""
        if not self._held or self._held.endswith("\\"):
            return ""
        found = read_inline(f"{self._before}{self._held}\n")
        return self._release(found.spoken.removesuffix("\n")) if found.is_decided else ""

    def finish(self) -> str:
        """The paragraph is complete, or is to be spoken as far as it has come: return what is left of it."""
        return self._release(read_inline(self._before + self._held).spoken) if self._held else ""

    def begin(self) -> None:
        """Another paragraph begins."""
        self._held = self._before = ""

    def _next_mark(self, text: str, start: int) -> int:
        for mark in _MARK.finditer(text, start):
            before = text[mark.start() - 1] if mark.start() > start else self._before
            if mark[0] != "!" or may_precede_image(before):
                return mark.start()
        return len(text)

    def _add_one(self, character: str) -> str:
        self._held += character
        if character in _MARKS or character in _LAST:
            self._has_news = True
        if self._has_news and character not in _MARKS and len(self._held) >= self._look_at:
            held = len(self._held)
            self._look_at = held * 9 // 8 if held < _LOOK_AGAIN_EARLY_CHARS else held * 3 // 2
            found = read_inline(self._before + self._held)
            if found.is_decided:
                return self._release(found.spoken)
            self._has_news = "&" in self._held[-34:]  # an entity ends with the first character that is not its own
        is_too_much = len(self._held) > LONGEST_HELD or (character == "[" and self._held.count("[") > MAX_HELD_BRACKETS)
        return self.finish() if is_too_much else ""

    def _release(self, spoken: str) -> str:
        spoken = spoken[len(self._before) :]
        self._given(self._held)
        self._held = ""
        return spoken

    def _given(self, text: str) -> str:
        if text:
            last = text[-1]
            self._before = "" if last.isspace() else "." if last in _MARKS else last
        return text
