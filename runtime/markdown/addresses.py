"""Incremental filter that replaces each web address in a text with its host name."""

from __future__ import annotations

import re

_URL_CHARACTER = r"[!-;=?-~]"  # Printable ASCII characters except < and >.
_ADDRESS = re.compile(
    rf"(?<![A-Za-z0-9])(?:https?://(?:[A-Za-z0-9._~%+:-]+@)?|(?=www\.[A-Za-z0-9]))"
    rf"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)(?::\d+)?(?P<path>[/?#]{_URL_CHARACTER}*)?",
    re.IGNORECASE,
)
_MAY_GO_ON = re.compile(
    rf"(?<![A-Za-z0-9])(?:h|ht|htt|https?|https?:|https?:/|w|ww|www|(?:https?://|www\.){_URL_CHARACTER}*)\Z",
    re.IGNORECASE,
)
# Maximum number of characters of an address that are held back. Further characters of its path are discarded.
MAX_HELD_CHARS = 256
_NOT_ITS_END = re.compile(r"[.,;:!?'\")\]}*_~]+\Z")


class Addresses:
    """Incremental filter that shortens the web addresses in one text.

    The text to speak is the concatenation of all results of `feed_text` and `finish`.
    """

    def __init__(self) -> None:
        self._held = ""  # Text that is held back because it may be the start of an address.
        # The letter "a" if the last returned character is a letter or digit. In this case, no address can start.
        self._before = ""

    def feed_text(self, text: str) -> str:
        """Append text and return the filtered text that is final.

        Text that may be an incomplete address is held back.
        """
        text, self._held = self._held + text, ""
        if (tail := _MAY_GO_ON.search(self._before + text)) is not None:
            start = tail.start() - len(self._before)
            text, self._held = text[:start], text[start:]
        if len(self._held) > MAX_HELD_CHARS and (address := _ADDRESS.match(self._held)) is not None and address["path"]:
            self._held = self._held[: address.start("path")] + "/" + _end_of(address["path"])
        return self._given(text)

    def finish(self) -> str:
        """End the text and return the filtered text that was held back."""
        text, self._held = self._held, ""
        text = self._given(text)
        self._before = ""
        return text

    def _given(self, text: str) -> str:
        if not text:
            return ""
        spoken = _ADDRESS.sub(_host, self._before + text)[len(self._before) :]
        self._before = "a" if text[-1].isalnum() and text[-1].isascii() else ""
        return spoken


def _host(address: re.Match[str]) -> str:
    return address["host"] + _end_of(address["path"] or "")


def _end_of(path: str) -> str:
    """Return the trailing punctuation of a path, which belongs to the sentence."""
    end = _NOT_ITS_END.search(path)
    return end[0] if end else ""
