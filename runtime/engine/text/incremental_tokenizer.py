"""Incremental tokenizer for text that arrives in several parts."""

from __future__ import annotations

import unicodedata

from runtime.model.text.text_tokenizer import TextTokenizer
from runtime.shared.text.sentence_ends import SPOKEN

KOREAN_JAMO = range(0x1160, 0x1200)  # Korean vowels and final consonants, which combine with the letter before them.


class IncrementalTokenizer:
    """Tokenizer for streamed text, which returns each token id as soon as the id is final.

    The ids are equal to the ids of the complete text without surrounding white space, for any division into `feed_text`
    calls. The tokenizer splits text into pieces, such as words, and never merges across pieces. Later text can change
    only the last piece or the white space at the end. Therefore the last word is delayed in scripts with spaces: "Hello
    wor" gives "Hello". Consecutive letters are one piece, so Chinese, Japanese and Thai text is delayed until the next
    punctuation mark, space or digit. In ordinary Chinese prose, the delay is five characters on average.

    `flush` returns the ids of all text. After a flush within a piece, the ids decode to the same text but may differ
    from the ids of the complete text.

    Only the text whose ids may still change is stored and encoded. The caller must refuse control tokens.
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self.tail = ""  # Normalized text whose ids have not been returned yet.
        self._begun = False  # True after the first character that is not a space.

    def feed_text(self, text: str) -> list[int]:
        """Append text, and return the new token ids that later text cannot change."""
        text = self._tokenizer.convert_to_ascii(text)
        if not self._begun:
            text = text.lstrip()
            self._begun = bool(text)
        # If the new text only continues the last word of the previous text, no new token ids are final.
        continues_word = text.isalpha() and self.tail[-1:].isalpha()
        self.tail += text
        return [] if continues_word else self._settled()

    def flush(self) -> list[int]:
        """Return the token ids of the remaining text, including an incomplete last word.

        Trailing white space is kept, because it may belong to the next piece of text.
        """
        text = self.tail.rstrip()
        self.tail = self.tail[len(text) :]
        return [token for _, ids in self._tokenizer.encode_pieces(text) for token in ids]

    @property
    def has_pending_words(self) -> bool:
        """True if the pending text, which has no ids yet, contains letters or digits."""
        return SPOKEN.search(self.tail) is not None

    def _settled(self) -> list[int]:
        """Return the ids that later text cannot change, and remove their text from the tail.

        Trailing white space stays in the tail, because a space is merged with a following word or newline.
        """
        pieces = self._tokenizer.encode_pieces(self.tail)
        end = len(self.tail.rstrip())
        for index in range(len(pieces) - 1, 0, -1):
            start, _ = pieces[index]
            if start <= end and _starts_new_piece(self.tail[start]):
                self.tail = self.tail[start:]
                return [token for _, ids in pieces[:index] for token in ids]
        return []


def _starts_new_piece(character: str) -> bool:
    """True if NFC normalization never combines this character with the text before it.

    Characters unknown to Python may be combining marks in the tokenizer's Unicode version.
    """
    return unicodedata.category(character)[0] != "M" and not (
        ord(character) in KOREAN_JAMO or unicodedata.category(character) == "Cn"
    )
