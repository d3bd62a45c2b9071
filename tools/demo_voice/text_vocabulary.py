"""Stage 3: text vocabulary of byte-level BPE merges and special tokens.

Run: python text_vocabulary.py   (learns the merges from the training lines and writes work/merges.txt)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from config import CONFIG, VOICE, WORK
from phonemes import read_lines
from runtime.model.text_tokenizer import PIECES

TEMPLATE_WORDS = ("assistant", "user")  # Words of the chat template, each of which becomes a single token.
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")
HEADER = "#version: 0.2"


def byte_letters() -> list[str]:
    """Return the printable character that GPT-2's byte-level BPE uses for each byte."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    other = iter(letters[letters.index(chr(256)) :])
    return [chr(b) if chr(b) in letters else next(other) for b in range(256)]


def _scheme(model: models.BPE) -> Tokenizer:
    """Return a tokenizer with Qwen2's normalization and pre-tokenizer."""
    tok = Tokenizer(model)
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PIECES), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    return tok


@dataclass
class TextVocabulary:
    """Text vocabulary of a byte-level BPE, with its token ids.

    The ids are, in this order: the 256 bytes, a piece for each merge, and the special tokens.
    """

    merges: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        names = dict.fromkeys([*byte_letters(), *(a + b for a, b in self.merges)])
        self.pieces = {name: i for i, name in enumerate(names)}
        self.specials = {name: len(self.pieces) + i for i, name in enumerate(SPECIALS)}
        _, self.im_start, self.im_end, self.pad, self.bos, self.eos = self.specials.values()
        # The values are None before `learn` has created these tokens.
        self.assistant, self.user = (self.pieces.get(word) for word in TEMPLATE_WORDS)
        self.newline = self.pieces[byte_letters()[10]]

    @property
    def rows(self) -> int:
        """Return the number of embedding rows: the number of ids, rounded up to a multiple of 16."""
        return -(-(len(self.pieces) + len(SPECIALS)) // 16) * 16

    def tokenizer(self, dropout: float | None = None) -> Tokenizer:
        """Return the tokenizer of this vocabulary.

        With `dropout`, each call skips random merges with this probability. The model then learns that a piece and its
        letters have the same meaning.
        """
        return _scheme(models.BPE(vocab=self.pieces, merges=list(self.merges), dropout=dropout))

    def write(self, folder: Path) -> None:
        """Write vocab.json, merges.txt and tokenizer_config.json in the published format."""
        (folder / "vocab.json").write_text(json.dumps(self.pieces, ensure_ascii=False))
        self.write_merges(folder / "merges.txt")
        added = {str(i): {"content": t, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                          "special": True} for t, i in self.specials.items()}  # fmt: skip
        config = json.loads((VOICE / "tokenizer_config.json").read_text()) | {"added_tokens_decoder": added}
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2))

    def write_merges(self, path: Path) -> None:
        path.write_text("\n".join([HEADER, *(f"{a} {b}" for a, b in self.merges), ""]))

    @classmethod
    def read(cls, path: Path) -> TextVocabulary:
        """Return the vocabulary that has the BPE merges in the file `path`."""
        lines = path.read_text().split("\n")
        return cls(tuple((a, b) for a, b in (line.split(" ") for line in lines if line and line != HEADER)))

    @classmethod
    def learn(cls, lines: Iterable[str], pieces: int) -> TextVocabulary:
        """Learn BPE merges from lines, and append the merges for the words of the chat template.

        `pieces` is the maximum number of learned pieces, including the 256 bytes.
        """
        tok = _scheme(models.BPE())
        trainer = trainers.BpeTrainer(vocab_size=pieces, initial_alphabet=byte_letters(), show_progress=False)
        tok.train_from_iterator(lines, trainer)
        merges = [(a, b) for a, b in json.loads(tok.to_str())["model"]["merges"]]
        for word in TEMPLATE_WORDS:
            made, *rest = cls(tuple(merges)).tokenizer().encode(word).tokens
            for piece in rest:
                merges.append((made, piece))
                made += piece
        return cls(tuple(merges))


def main() -> None:
    lines, _ = read_lines(WORK / "lines.npz")
    vocabulary = TextVocabulary.learn(lines, CONFIG["text"]["pieces"])
    vocabulary.write_merges(WORK / "merges.txt")
    letters, ids = sum(map(len, lines[:20000])), vocabulary.tokenizer().encode_batch(lines[:20000])
    print(f"{len(vocabulary.pieces)} pieces, {letters / sum(map(len, ids)):.2f} letters a piece")


if __name__ == "__main__":
    main()
