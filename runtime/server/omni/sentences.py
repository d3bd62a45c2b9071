"""Sentence splitting of streamed text in vLLM-Omni's API.

Clients count sentences, so the rules are the same as in vLLM-Omni. A full stop, an exclamation mark or a question mark
ends a sentence if white space follows. Marks of other scripts need no white space. Clauses also end at commas and
semicolons.

There are three differences from vLLM-Omni. A comma must be followed by white space, so that 1,000 is not split. Every
segment must contain a letter or a digit. Tags are not split.
"""

from __future__ import annotations

import re

from runtime.request import Split
from runtime.settings import Limits
from runtime.shared.text.sentence_ends import SPOKEN
from runtime.shared.text.ssml import IN_TAG

_ENDS = {
    Split.SENTENCE: r"[.!?]\s+|[。！？…।॥؟]\s*",
    Split.CLAUSE: r"[.!?,;]\s+|[。！？…।॥؟，；،]\s*",
}


class SentenceSplitter:
    """Incremental splitter of the text of an utterance into sentences or clauses.

    `tags` has the limits of inline tags, or is None if inline tags are disabled.
    """

    def __init__(self, split: Split, tags: Limits | None = None) -> None:
        ends = _ENDS.get(split)
        tag = IN_TAG + "|" + (rf"\[[^\[\]\n]{{0,{tags.max_instruct_chars}}}(?:\]|\Z)|" if tags else "")
        self._ends = re.compile(f"{tag}(?P<end>{ends})", re.IGNORECASE) if ends else None
        self._rest = ""
        self._next_search = 0  # Index at which the next search starts. Later text may complete a tag at this index.
        self._is_speakable = False  # True if the remaining text has a letter or digit.

    @property
    def waiting_chars(self) -> int:
        """Return the number of characters in the incomplete segment."""
        return len(self._rest)

    def feed_text(self, text: str) -> list[str]:
        """Append text and return all new segments that are complete.

        A segment is a sentence or a clause.
        """
        before, self._rest = len(self._rest), self._rest + text
        word = 0 if self._is_speakable else self._next_word(before)
        parts, start, next_search = [], 0, max(0, len(self._rest) - 1)
        for found in self._ends.finditer(self._rest, self._next_search) if self._ends else ():
            if found["end"] is None:
                next_search = next_search if found[0].endswith(("]", ">")) else found.start()
            elif word < found.end():
                parts.append(self._rest[start : found.end()].strip())
                start = found.end()
                word = self._next_word(start)
        self._is_speakable = word < len(self._rest)
        self._rest = self._rest[start:]
        self._next_search = max(0, next_search - start)
        return parts

    def _next_word(self, start: int) -> int:
        """Return the index of the next letter or digit, or the length of the text."""
        found = SPOKEN.search(self._rest, start)
        return found.start() if found else len(self._rest)

    def flush(self) -> list[str]:
        """Return the remaining text as one segment, or an empty list if the text has no words.

        More text may follow.
        """
        return self.finish() if self._is_speakable else []

    def finish(self) -> list[str]:
        """End the text, and return its last segment in a list, which is empty if no text remains.

        The splitter can then be used for another text.
        """
        rest, self._rest, self._is_speakable = self._rest.strip(), "", False
        self._next_search = 0
        return [rest] if rest else []
