"""Support for the tag ``<spell>`` of Cartesia's and ElevenLabs' APIs.

The characters inside the tag are spoken one after another.
"""

from __future__ import annotations

import regex

from runtime.shared.text import ssml

_SPELL = regex.compile(r"<(/?)\s*spell\b", regex.IGNORECASE)


class Spelling:
    """Incremental converter that spells the content of ``<spell>`` tags in one text.

    The concatenated results of `feed_text`, `flush` and `finish` are the text without these tags.
    """

    def __init__(self) -> None:
        self._tail = ""  # Text that is held back because it may be the start of a tag.
        self._is_spelling = False
        self._last = ""  # Last character of the text that was returned.

    def feed_text(self, text: str) -> str:
        """Append text and return the new converted text that is final.

        The end of the text is held back while it may be an incomplete tag.
        """
        return self._spelled(self._tail + text)

    def flush(self) -> str:
        """Return the converted text that was held back, although more text may follow."""
        return self.finish()

    def finish(self) -> str:
        """End the text and return the converted text that was held back."""
        return self._spelled(self._tail, is_whole=True)

    def _spelled(self, text: str, *, is_whole: bool = False) -> str:
        self._tail = ""
        parts: list[str] = []
        start = at = 0
        while (at := text.find("<", at)) >= 0:
            end = ssml.tag_end(text, at, is_whole=is_whole)
            if end is None:
                text, self._tail = text[:at], text[at:]
                break
            if end == at:
                at += 1
                continue
            parts.append(self._plain(text[start:at]))
            if spell := _SPELL.match(text, at, end):
                parts.append(" " if self._last.strip() else "")
                self._last = parts[-1] or self._last
                self._is_spelling = not spell[1]
            else:
                parts.append(text[at:end])
            start = at = end
        parts.append(self._plain(text[start:]))
        return "".join(parts)

    def _plain(self, text: str) -> str:
        if self._is_spelling:
            text = "".join(f"{letter}, " for letter in text if letter.isalnum())
        self._last = text[-1:] or self._last
        return text
