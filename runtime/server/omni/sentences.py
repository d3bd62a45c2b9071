"""Cuts a text that is still being written into the sentences of vLLM-Omni's dialect.

Its clients count sentences, so the rules are that server's: a full stop, exclamation or question mark ends a sentence
once white space follows it; marks of other scripts, which no abbreviation has, end it at once. Clauses end at commas
and semicolons too. Two differences: a comma needs its white space as well, so that 1,000 stays whole, and nothing
without a letter or digit is a part of its own. Nothing is cut inside a tag.
"""

from __future__ import annotations

import re

from runtime.request import Split
from runtime.settings import Limits
from runtime.shared.speech_rate import is_speakable

_ENDS = {
    Split.SENTENCE: r"[.!?]\s+|[。！？…।॥؟]\s*",
    Split.CLAUSE: r"[.!?,;]\s+|[。！？…।॥؟，；،]\s*",
}


class Sentences:
    """One utterance's text, as far as it has come. With other splits than sentence and clause it is never cut.

    ``tags``: the limits of its tags, where it holds any.
    """

    def __init__(self, split: Split, tags: Limits | None = None) -> None:
        ends = _ENDS.get(split)
        tag = rf"\[[^\[\]\n]{{0,{tags.max_instruct_chars}}}(?:\]|\Z)|" if tags else ""
        self._ends = re.compile(f"{tag}(?P<end>{ends})") if ends else None
        self._tags = tags is not None
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
        looked = 0 if self._tags else max(0, before - 1)  # a mark may have waited for its white space
        for end in self._ends.finditer(self._rest, looked):
            part = self._rest[start : end.end()]
            if end["end"] and is_speakable(part):
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
