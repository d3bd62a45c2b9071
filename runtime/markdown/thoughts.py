"""Removal of a language model's reasoning (``<think>…</think>``) from streamed text."""

from __future__ import annotations

import re

TAGS = ("think", "thinking", "thought", "reasoning")

_OPENING = re.compile(rf"[ \t]*<({'|'.join(TAGS)})>", re.IGNORECASE)
_OPENINGS = tuple(f"<{tag}>" for tag in TAGS)
# Number of characters of a piece, which is processed at once. Pieces are short, because each line copies the rest of
# its piece.
_PIECE_CHARS = 256
_MAX_INDENT = 8  # Maximum number of white-space characters before a tag. It limits the text that is held back.


class GrowingThoughts:
    """Incremental filter that removes blocks of reasoning from one text.

    A block starts at the start of a line. A block without an end tag extends to the end of the text. The end of the
    text is held back only while it may be an incomplete tag.
    """

    def __init__(self) -> None:
        self._held = ""
        self._is_line_start = True
        self._closing: str | None = None  # End tag of the current block, or None if there is no block.

    def feed_text(self, text: str) -> str:
        """Append text and return the new text that is not reasoning."""
        self._held += text
        spoken = []
        while self._held:
            if self._closing is not None:
                if not self._skip_thought(self._closing):
                    break
            elif self._is_line_start and (opening := _OPENING.match(self._held)):
                self._held = self._held[opening.end() :]
                self._closing = f"</{opening[1].lower()}>"
            elif self._is_line_start and _may_open(self._held):
                break
            else:
                line, newline, self._held = self._held.partition("\n")
                self._is_line_start = bool(newline)
                spoken.append(line + newline)
        return "".join(spoken)

    def flush(self) -> str:
        """Return the text that was held back because it may be the start of a tag.

        More text may follow.
        """
        if self._closing is not None:
            return ""
        text, self._held = self._held, ""
        self._is_line_start = self._is_line_start and not text
        return text

    def finish(self) -> str:
        """End the text and return the text that was held back."""
        return self.flush()

    def _skip_thought(self, closing: str) -> bool:
        """Drop held text inside a block, and return True if the block has ended."""
        end = self._held.lower().find(closing)
        if end < 0:
            self._held = self._held[-(len(closing) - 1) :]
            return False
        self._held = self._held[end + len(closing) :]
        self._closing = None
        self._is_line_start = True
        return True


def without_thoughts(text: str) -> str:
    """Return a complete text without its blocks of reasoning."""
    thoughts = GrowingThoughts()
    pieces = (text[start : start + _PIECE_CHARS] for start in range(0, len(text), _PIECE_CHARS))
    return "".join(map(thoughts.feed_text, pieces)) + thoughts.finish()


def _may_open(text: str) -> bool:
    """True if more characters may turn this start of a line into a tag."""
    beginning = text.lstrip(" \t").lower()
    return len(text) - len(beginning) <= _MAX_INDENT and any(tag.startswith(beginning) for tag in _OPENINGS)
