"""Stage 3 of the voice training: vocabulary of byte-level BPE merges and special tokens.

Run: python text_vocabulary.py   (learns the merges from the training lines, and writes the vocabulary to work)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tokenizers import Tokenizer, pre_tokenizers, trainers

from config import CONFIG, VOICE, WORK
from lm_model import SIZES
from phonemes import read_lines
from runtime.model.checkpoints.tokenizer_files import TokenizerFiles, read_tokenizer_files
from runtime.model.text.text_tokenizer import qwen2_tokenizer

TEMPLATE_WORDS = ("assistant", "user")  # Words of the chat template, each of which becomes a single token.
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")


def byte_letters() -> list[str]:
    """Return the printable character that GPT-2's byte-level BPE uses for each byte."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    other = iter(letters[letters.index(chr(256)) :])
    return [chr(b) if chr(b) in letters else next(other) for b in range(256)]


@dataclass
class TextVocabulary:
    """Text vocabulary of a byte-level BPE, with its token ids.

    The ids are, in this order: the 256 bytes, a piece for each merge, and the special tokens.
    """

    merges: list[tuple[str, str]]

    def __post_init__(self) -> None:
        names = dict.fromkeys([*byte_letters(), *(a + b for a, b in self.merges)])
        self.pieces = {name: i for i, name in enumerate(names)}
        self.specials = {name: len(self.pieces) + i for i, name in enumerate(SPECIALS)}
        _, self.im_start, self.im_end, self.pad, self.bos, self.eos = self.specials.values()
        # The values are None before `learn` has created these tokens.
        self.assistant, self.user = (self.pieces.get(word) for word in TEMPLATE_WORDS)
        self.newline = ord("\n")
        tts_ids = {"tts_pad_token_id": self.pad, "tts_bos_token_id": self.bos, "tts_eos_token_id": self.eos}
        self.config = replace(SIZES, **tts_ids)  # Configuration with which the runtime builds prompts.
        # Number of embedding rows: the number of ids, rounded up to a multiple of 16.
        self.rows = -(-(len(self.pieces) + len(SPECIALS)) // 16) * 16

    def tokenizer(self, dropout: float | None = None) -> Tokenizer:
        """Return the tokenizer of this vocabulary.

        With `dropout`, each call skips random merges with this probability. The model then learns that a piece and its
        letters have the same meaning.
        """
        tokenizer = qwen2_tokenizer(TokenizerFiles(self.pieces, self.merges, {}))
        tokenizer.model.dropout = dropout
        return tokenizer

    def write(self, folder: Path) -> None:
        """Write vocab.json, merges.txt and tokenizer_config.json in the published format."""
        (folder / "vocab.json").write_text(json.dumps(self.pieces, ensure_ascii=False))
        (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *(f"{a} {b}" for a, b in self.merges), ""]))
        added = {str(i): {"content": t, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                          "special": True} for t, i in self.specials.items()}  # fmt: skip
        config = json.loads((VOICE / "tokenizer_config.json").read_text()) | {"added_tokens_decoder": added}
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2))

    @classmethod
    def read(cls, folder: Path) -> TextVocabulary:
        """Return the vocabulary in a folder that `write` has written."""
        return cls(read_tokenizer_files(folder).merges)

    @classmethod
    def learn(cls, lines: Iterable[str], pieces: int) -> TextVocabulary:
        """Learn BPE merges from lines, and append the merges for the words of the chat template.

        `pieces` is the maximum number of learned pieces, including the 256 bytes.
        """
        tokenizer = qwen2_tokenizer(TokenizerFiles({}, [], {}))
        trainer = trainers.BpeTrainer(vocab_size=pieces, initial_alphabet=byte_letters(), show_progress=False)
        tokenizer.train_from_iterator(lines, trainer)
        merges = [(a, b) for a, b in json.loads(tokenizer.to_str())["model"]["merges"]]
        for word in TEMPLATE_WORDS:
            made, *rest = cls(merges).tokenizer().encode(word).tokens
            for piece in rest:
                merges.append((made, piece))
                made += piece
        return cls(merges)


def main() -> None:
    lines, _ = read_lines(WORK / "lines.npz")
    vocabulary = TextVocabulary.learn(lines, CONFIG["text"]["pieces"])
    vocabulary.write(WORK)
    letters, ids = sum(map(len, lines[:20000])), vocabulary.tokenizer().encode_batch(lines[:20000])
    print(f"{len(vocabulary.pieces)} pieces, {letters / sum(map(len, ids)):.2f} letters a piece")


if __name__ == "__main__":
    main()
