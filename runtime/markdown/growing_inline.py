"""Incremental conversion of one Markdown paragraph to spoken text."""

from __future__ import annotations

import re

from runtime.markdown.reading import may_precede_image, read_inline

MAX_HELD_CHARS = 600  # Maximum number of characters that are held back until the end of a link or emphasis.
# Maximum number of "[" characters in the held text. The parser searches for the end of each of them, so its time is
# quadratic in this number.
MAX_HELD_BRACKETS = 8
_RESCAN_CHARS = 48

_MARKS = "\\`*_[]<&~!"
_MARK = re.compile(r"[\\`*_\[<&~!]")
# Last characters of addresses, tags and entities. The characters of `_MARKS` can also end an element.
_CLOSING_CHARACTERS = ")>;"


class GrowingInline:
    """Incremental converter of consecutive Markdown paragraphs to spoken text.

    The text to speak is the concatenation of all results. Text without marks is returned immediately. Text after a mark
    is held back until markdown-it shows that later text cannot change it. The positions of these checks depend only on
    the text, not on how it is divided into pieces.
    """

    def __init__(self) -> None:
        self._held = ""  # Text that is held back. It starts with a mark that is still open.
        # Character before the held text, which decides if a mark can open emphasis. Marks are stored as a full stop,
        # and white space as an empty string.
        self._before = ""
        # True if a character was added since the last check that may complete a link or emphasis.
        self._has_news = False
        # Length in characters of the held text at which the next check is made. It grows by 1/8 per check, and by 1/2
        # for long texts.
        self._look_at = 0

    def feed_text(self, text: str) -> str:
        """Append Markdown text and return the new spoken text that is final.

        Spoken text that later input could change is held back.
        """
        output, start = [], 0
        while start < len(text):
            if not self._held:
                end = self._next_mark(text, start)
                output.append(self._given(text[start:end]))
                self._held = text[end : end + 1]
                self._has_news = True
                self._look_at = 0
                start = end + 1
                continue
            output.append(self._add_one(text[start]))
            start += 1
        return "".join(output)

    def end_line(self) -> str:
        """End the current line and return the new spoken text that is final.

        The paragraph may continue on the next line.
        """
        if not self._held or self._held.endswith("\\"):
            return ""
        found = read_inline(f"{self._before}{self._held}\n")
        return self._release(found.spoken.removesuffix("\n")) if found.is_decided else ""

    def finish(self) -> str:
        """End the paragraph and return the spoken text that was held back."""
        return self._release(read_inline(self._before + self._held).spoken) if self._held else ""

    def begin(self) -> None:
        """Start the next paragraph."""
        self._held = self._before = ""

    def _next_mark(self, text: str, start: int) -> int:
        for mark in _MARK.finditer(text, start):
            before = text[mark.start() - 1] if mark.start() > start else self._before
            if mark[0] != "!" or may_precede_image(before):
                return mark.start()
        return len(text)

    def _add_one(self, character: str) -> str:
        self._held += character
        if character in _MARKS or character in _CLOSING_CHARACTERS:
            self._has_news = True
        if self._has_news and character not in _MARKS and len(self._held) >= self._look_at:
            held_chars = len(self._held)
            self._look_at = held_chars * 9 // 8 if held_chars < _RESCAN_CHARS else held_chars * 3 // 2
            found = read_inline(self._before + self._held)
            if found.is_decided:
                return self._release(found.spoken)
            # An entity has at most 33 characters, so only the end of the text is searched for its start.
            self._has_news = "&" in self._held[-34:]
        is_too_much = len(self._held) > MAX_HELD_CHARS or (
            character == "[" and self._held.count("[") > MAX_HELD_BRACKETS
        )
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
