"""Cuts a text that is still being written into the sentences of vLLM-Omni's dialect.

Its clients count sentences, so the rules are that server's: a full stop, exclamation or question mark ends a sentence
once white space follows it; marks of other scripts, which no abbreviation has, end it at once. Clauses end at commas
and semicolons too. Two differences: a comma needs its white space as well, so that 1,000 stays whole, and nothing
without a letter or digit is a part of its own.
"""

from __future__ import annotations

import re

from runtime.request import Split
from runtime.shared.speech_rate import is_speakable

_ENDS = {
    Split.SENTENCE: re.compile(r"[.!?]\s+|[。！？…।॥؟]\s*"),
    Split.CLAUSE: re.compile(r"[.!?,;]\s+|[。！？…।॥؟，；،]\s*"),
}


class Sentences:
    """One utterance's text, as far as it has come. With other splits than sentence and clause it is never cut."""

    def __init__(self, split: Split) -> None:
        self._ends = _ENDS.get(split)
        self._rest = ""

    @property
    def waiting_chars(self) -> int:
        """Characters of the part that is not complete yet."""
        return len(self._rest)

    def add(self, text: str) -> list[str]:
        """Take more text and return the parts that are complete now."""
        before, self._rest = len(self._rest), self._rest + text
        if self._ends is None:
            return []
        parts, start = [], 0
        for end in self._ends.finditer(self._rest, max(0, before - 1)):  # a mark may have waited for its white space
            part = self._rest[start : end.end()]
            if is_speakable(part):
                parts.append(part.strip())
                start = end.end()
        self._rest = self._rest[start:]
        return parts

    def flush(self) -> list[str]:
        """Return the rest, if there is something to speak in it; the text goes on."""
        return self.finish() if is_speakable(self._rest) else []

    def finish(self) -> list[str]:
        """Return the rest, if there is any, and begin anew."""
        rest, self._rest = self._rest.strip(), ""
        return [rest] if rest else []
