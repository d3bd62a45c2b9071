"""Text tokenizer: Qwen2's byte-level BPE and pre-tokenizer."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # Texts are short and tokenized one at a time.

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import ByteLevel, Split
from tokenizers.pre_tokenizers import Sequence as InTurn

from runtime.errors import CheckpointInvalid
from runtime.model.ascii_spelling import in_ascii, is_left_out
from runtime.model.config import ModelConfig
from runtime.model.english_reading import GrowingReading, read_english
from runtime.model.tokenizer_files import TokenizerFiles, read_tokenizer_files

# Qwen2's, which cuts a text into the pieces that byte pairs are merged within.
PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
END_OF_TEXT = "<|endoftext|>"  # transformers' class adds it even if the files do not have it.


class TextTokenizer:
    """The prompt's three templates (docs/model.md 3.1). Only ids leave this class.

    It is built from the words and merges of its files directly: loaders that read more of the folder may replace the
    pre-tokenizer by another model's (docs/model.md 7.3), which splits "iPhone" differently.
    """

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        files = read_tokenizer_files(folder)
        self._spells_ascii = config.alphabet is not None
        try:
            self._tokenizer = qwen2_tokenizer(files)
        except Exception as error:  # The Rust side raises bare exceptions.
            raise CheckpointInvalid(path=folder, why=f"the text tokenizer cannot be read ({error})") from None
        self.ids = max(self._tokenizer.get_vocab().values()) + 1  # Rows that an embedding must have.
        self.reserved = tuple(files.added)
        self.longest_reserved = max(map(len, self.reserved), default=1)  # Characters.
        self._role = self.encode("<|im_start|>assistant\n")
        self._check_template(folder, config)

    def reserved_in(self, text: str) -> bool:
        """True if a client's text contains a token reserved for the prompt, which would break the layout.

        The text is one as it is `spelled`: only then it is seen what the tokenizer will read.
        """
        return any(token in text for token in self.reserved)

    def spelled(self, text: str) -> str:
        """Return the text as the checkpoint reads it: in ASCII where it knows nothing else, character by character."""
        return in_ascii(text) if self._spells_ascii else text

    def leaves_out(self, text: str) -> bool:
        """Return True if the text has characters that the checkpoint cannot read and that `spelled` leaves out."""
        return self._spells_ascii and is_left_out(text)

    def reading(self) -> GrowingReading | None:
        """Return a reader of one growing text for a checkpoint that knows words only; None if it reads all itself."""
        return GrowingReading() if self._spells_ascii else None

    def read(self, text: str) -> str:
        """Return a whole text as the checkpoint reads it aloud."""
        return read_english(in_ascii(text)) if self._spells_ascii else text

    def role(self) -> list[int]:
        """Ids that open every utterance."""
        return list(self._role)

    def body(self, text: str) -> list[int]:
        """Ids of the text to speak, or of a reference text."""
        if (spelled := self.spelled(text)) != text:
            text = spelled.strip()  # A character that is left out may have been before white space.
        return self.encode(f"<|im_start|>assistant\n{text}<|im_end|>\n")[len(self._role) : -2]

    def pieces(self, text: str) -> list[tuple[int, list[int]]]:
        """Return the pre-tokenizer's pieces of a text: start in characters, and ids that no other piece affects.

        The text is one as it is `spelled`. The ids are those of `body` for a text that starts and ends with neither
        white space nor a combining mark.
        """
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        pieces: list[tuple[int, list[int]]] = []
        last = None
        for word, (start, _), token in zip(encoding.word_ids, encoding.offsets, encoding.ids, strict=True):
            if word != last:
                pieces.append((start, []))
                last = word
            pieces[-1][1].append(token)
        return pieces

    def instruct(self, text: str) -> list[int]:
        """Ids of an instruct turn, used whole."""
        return self.encode(f"<|im_start|>user\n{self.read(text)}<|im_end|>\n")

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _check_template(self, folder: Path, config: ModelConfig) -> None:
        role = self.role()
        if len(role) != 3 or role[0] != config.im_start_token_id:
            raise CheckpointInvalid(path=folder, why="its tokenizer does not write the role in the three ids it should")


def qwen2_tokenizer(files: TokenizerFiles) -> Tokenizer:
    """Build transformers' ``Qwen2Tokenizer`` from its files without importing transformers, which takes a second.

    Raises:
        Exception: as the library's Rust side raises it.
    """
    tokenizer = Tokenizer(BPE(vocab=files.vocabulary, merges=files.merges))
    tokenizer.normalizer = NFC()
    tokenizer.pre_tokenizer = InTurn(
        [Split(Regex(PIECES), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    # They have their ids in the vocabulary: the library would close gaps between them.
    added = [token for token, _ in sorted(files.added.items(), key=lambda item: item[1])]
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in (*added, END_OF_TEXT)])
    return tokenizer
