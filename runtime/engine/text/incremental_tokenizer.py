"""Tokenizer for a text that is still growing."""

from __future__ import annotations

import unicodedata

from runtime.model.text_tokenizer import TextTokenizer
from runtime.shared.sentence_ends import SPOKEN

JAMO = range(0x1160, 0x1200)  # Vowels and finals of Korean syllables, which join the letter before them.


class IncrementalTokenizer:
    """Tokenizer that returns the ids of a text as soon as later text cannot change them.

    The ids equal those of the whole text without surrounding white space, independent of how it was divided into `add`
    calls. Byte-level BPE never merges across the pieces of the pre-tokenizer, and later text can change only the last
    piece or the white space at the end. So in scripts with spaces one word is held back: "Hello wor" gives "Hello".
    Letters without a space or mark between them are one piece, so Chinese, Japanese and Thai are held back to the next
    punctuation mark, space or digit: in ordinary Chinese prose at most ten characters, five on average. `flush` returns
    them at once. After a flush within a piece the ids spell the same text, but may differ from those of the whole text.

    Only the tail that may still change is stored and encoded. The caller must refuse control tokens.
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self.tail = ""  # Normalized text whose ids have not been returned yet.
        self._begun = False  # True after the first character that is not white space.

    def add(self, text: str) -> list[int]:
        """Append text and return the ids that are final now."""
        text = self._tokenizer.spelled(text)
        if not self._begun:
            text = text.lstrip()
            self._begun = bool(text)
        runs_on = text.isalpha() and self.tail[-1:].isalpha()  # Letters after a letter end no piece.
        self.tail += text
        return [] if runs_on else self._settled()

    def flush(self) -> list[int]:
        """Return the ids of all text so far, except trailing white space, which may belong to the next piece."""
        text = self.tail.rstrip()
        self.tail = self.tail[len(text) :]
        return [token for _, ids in self._tokenizer.pieces(text) for token in ids]

    @property
    def holds_words(self) -> bool:
        """True if there are words whose ids may still change."""
        return SPOKEN.search(self.tail) is not None

    def _settled(self) -> list[int]:
        """Cut the tail before the last piece that later text can change, and return the ids before the cut.

        Trailing white space stays in the tail: " " joins a following word, or a following newline.
        """
        pieces = self._tokenizer.pieces(self.tail)
        solid = len(self.tail.rstrip())
        for index in range(len(pieces) - 1, 0, -1):
            start, _ = pieces[index]
            if start <= solid and _stands_alone(self.tail[start]):
                self.tail = self.tail[start:]
                return [token for _, ids in pieces[:index] for token in ids]
        return []


def _stands_alone(character: str) -> bool:
    """True if NFC normalization never joins this character to the text before it.

    Characters unknown to Python may be combining marks in the tokenizer's Unicode version.
    """
    return unicodedata.category(character)[0] != "M" and not (
        ord(character) in JAMO or unicodedata.category(character) == "Cn"
    )
