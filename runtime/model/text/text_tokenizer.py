"""Text tokenizer: Qwen2's byte-level BPE and pre-tokenizer."""

from __future__ import annotations

import os
from array import array
from functools import lru_cache, partial
from pathlib import Path

# Parallel tokenization is disabled, because texts are short and are tokenized one at a time.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import ByteLevel, Split
from tokenizers.pre_tokenizers import Sequence as InTurn

from runtime.errors import CheckpointInvalid
from runtime.model.checkpoints.tokenizer_files import TokenizerFiles, read_tokenizer_files
from runtime.model.config import ModelConfig
from runtime.model.text.ascii_spelling import drops_characters, to_ascii
from runtime.model.text.english_normalizer import StreamingNormalizer, normalize_english

# Pattern by which Qwen2's pre-tokenizer splits text. BPE merges tokens only within a match.
PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
MAX_CACHED_CHARS = 4096  # Maximum length of a text whose ids are cached.
MAX_CACHED_TEXTS = 64
END_OF_TEXT = "<|endoftext|>"  # Token that the tokenizer class of transformers adds even if no file contains it.


class TextTokenizer:
    """Text tokenizer with the three prompt templates (docs/model.md 3.1).

    The tokenizer is built directly from the vocabulary and merges, and no other files are read. Loaders that read more
    files can use the pre-tokenizer of another model. That pre-tokenizer splits words such as "iPhone" differently
    (docs/model.md 7.3).
    """

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        files = read_tokenizer_files(folder)
        self._spells_ascii = config.alphabet is not None
        try:
            self._tokenizer = qwen2_tokenizer(files)
        except Exception as error:  # The library raises `Exception` itself and no subclass.
            raise CheckpointInvalid(path=folder, why=f"the text tokenizer cannot be read ({error})") from None
        # A request's text is tokenized at the validation and for the prompt, and its instruction up to four times.
        self._cached_ids = lru_cache(MAX_CACHED_TEXTS)(partial(_token_ids, self._tokenizer))
        # Minimum size of the text embedding table: the largest id plus one.
        self.ids = max(self._tokenizer.get_vocab().values()) + 1
        self.reserved = tuple(files.added)
        # Length of the longest reserved token in characters.
        self.longest_reserved = max(map(len, self.reserved), default=1)
        self._role = self.encode("<|im_start|>assistant\n")
        self._check_template(folder, config)

    def reserved_in(self, text: str) -> bool:
        """True if a text contains a control token, which only the prompt templates may use.

        The text must already be converted to ASCII by `convert_to_ascii`, because the conversion can create a control
        token.
        """
        return any(map(text.__contains__, self.reserved))

    def convert_to_ascii(self, text: str) -> str:
        """Return the text in ASCII if the checkpoint needs ASCII, else the unchanged text."""
        return to_ascii(text) if self._spells_ascii else text

    def drops_characters(self, text: str) -> bool:
        """True if `convert_to_ascii` drops visible characters of the text."""
        return self._spells_ascii and drops_characters(text)

    def create_normalizer(self) -> StreamingNormalizer | None:
        """Return a new text normalizer for streamed text, or None if the checkpoint needs none."""
        return StreamingNormalizer() if self._spells_ascii else None

    def normalize(self, text: str) -> str:
        """Normalize a complete text, if the checkpoint needs normalized text.

        Numbers and symbols are then replaced by English words.
        """
        return normalize_english(to_ascii(text)) if self._spells_ascii else text

    def role_ids(self) -> list[int]:
        """Return the token ids of the assistant role, which precede the text to speak in a prompt."""
        return list(self._role)

    def encode_text(self, text: str) -> list[int]:
        """Return the token ids of a text to speak or of a reference transcript."""
        if (spelled := self.convert_to_ascii(text)) != text:
            text = spelled.strip()  # Dropped characters may leave white space at both ends.
        return self.encode(f"<|im_start|>assistant\n{text}<|im_end|>\n")[len(self._role) : -2]

    def encode_pieces(self, text: str) -> list[tuple[int, list[int]]]:
        """Tokenize a text, and return the start in characters and the token ids of each piece.

        A piece is a unit of the pre-tokenizer, such as a word. The ids of a piece do not depend on other pieces. The
        text must already be converted to ASCII by `convert_to_ascii`, if the checkpoint needs ASCII. The ids are equal
        to the ids of `encode_text` if the text does not begin or end with white space or a combining mark.
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

    def encode_instruct(self, text: str) -> list[int]:
        """Return the token ids of the user message that contains the instruction."""
        return self.encode(f"<|im_start|>user\n{self.normalize(text)}<|im_end|>\n")

    def encode(self, text: str) -> list[int]:
        return list(self._cached_ids(text) if len(text) <= MAX_CACHED_CHARS else _token_ids(self._tokenizer, text))

    def _check_template(self, folder: Path, config: ModelConfig) -> None:
        role = self.role_ids()
        if len(role) != 3 or role[0] != config.im_start_token_id:
            raise CheckpointInvalid(path=folder, why="its tokenizer does not encode the role as the expected three ids")


def _token_ids(tokenizer: Tokenizer, text: str) -> array[int]:
    """Return the token ids of a text with four bytes per id."""
    return array("I", tokenizer.encode(text, add_special_tokens=False).ids)


def qwen2_tokenizer(files: TokenizerFiles) -> Tokenizer:
    """Build a tokenizer that is equivalent to transformers' ``Qwen2Tokenizer``.

    Transformers is not used, because its import takes a second.

    Raises:
        Exception: The files have invalid content.
    """
    tokenizer = Tokenizer(BPE(vocab=files.vocabulary, merges=files.merges))
    tokenizer.normalizer = NFC()
    tokenizer.pre_tokenizer = InTurn(
        [Split(Regex(PIECES), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    # The library numbers added tokens in the order of this list. Therefore the list is sorted by the ids in the files.
    added = [token for token, _ in sorted(files.added.items(), key=lambda item: item[1])]
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in (*added, END_OF_TEXT)])
    return tokenizer
