"""Turns a text that is still being written into token ids."""

from __future__ import annotations

import unicodedata

from runtime.model.text_tokenizer import TextTokenizer
from runtime.shared.sentence_ends import SPOKEN

JAMO = range(0x1160, 0x1200)  # vowels and finals of Korean syllables, which join the letter before them


class IncrementalTokenizer:
    """Gives out the ids of a text as soon as no further text can change them.

    All ids together are those of the whole text without surrounding white space, however it was cut into ``add``
    calls. This works because byte-level BPE never looks beyond the pieces that the pre-tokenizer cuts, and what comes
    later can change only the last piece, or the white space at the end. So one word is held back in scripts with
    spaces: "Hello wor" gives "Hello". Letters without a space or a mark between them are one piece, so Chinese,
    Japanese and Thai are held back to the next punctuation mark, space or digit: at most ten characters, five on
    average, in ordinary Chinese prose. `flush` gives them out at once; after it in the middle of a piece the ids spell
    the same text but may differ from those of the whole, because BPE could not merge across that place.

    Only the tail that may still change is kept and encoded. That the text holds no control token is the caller's care.
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self.tail = ""  # text, as the checkpoint spells it, whose ids are not given out yet
        self._begun = False  # something other than white space has come

    def add(self, text: str) -> list[int]:
        """More text; the ids that are certain now."""
        text = self._tokenizer.spelled(text)
        if not self._begun:
            text = text.lstrip()
            self._begun = bool(text)
        runs_on = text.isalpha() and self.tail[-1:].isalpha()  # letters after a letter end no piece
        self.tail += text
        return [] if runs_on else self._settled()

    def flush(self) -> list[int]:
        """The ids of all the text that has come, but for white space at its end, which may belong to what follows."""
        text = self.tail.rstrip()
        self.tail = self.tail[len(text) :]
        return [token for _, ids in self._tokenizer.pieces(text) for token in ids]

    @property
    def holds_words(self) -> bool:
        """There is text to speak whose ids may still change."""
        return SPOKEN.search(self.tail) is not None

    def _settled(self) -> list[int]:
        """Cut the tail before its last piece that starts where nothing can join, and return the ids before that.

        White space at the end decides nothing about itself: " " before a word belongs to the word, and before a
        newline to the newline.
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
    """Whether normalisation (NFC) leaves the text before this character as it is, whatever comes.

    Characters that Python does not know may be marks to the tokenizer, whose Unicode version is another.
    """
    return unicodedata.category(character)[0] != "M" and not (
        ord(character) in JAMO or unicodedata.category(character) == "Cn"
    )
