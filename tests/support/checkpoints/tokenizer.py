"""Small byte-level BPE tokenizer in the file format of Qwen2's tokenizer.

The files are vocab.json, merges.txt and tokenizer_config.json. Every byte is a token, so any UTF-8 text can be
tokenized. The texts that are passed to the functions become single tokens.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path


def byte_symbols() -> list[str]:
    """Return the printable characters that GPT-2's byte-level BPE uses for the 256 bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    symbols = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(256) if byte not in symbols)
    symbols |= {byte: chr(256 + offset) for offset, byte in enumerate(others)}
    return [symbols[byte] for byte in range(256)]


def merges(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return BPE merges, in rank order, that join each text to one token.

    If merges conflict, earlier texts have priority.
    """
    symbols = byte_symbols()
    ranked: dict[tuple[str, str], None] = {}
    for text in texts:
        pieces = [symbols[byte] for byte in text.encode()]
        for end in range(1, len(pieces)):
            ranked.setdefault(("".join(pieces[:end]), pieces[end]))
    return list(ranked)


def vocabulary(texts: Sequence[str]) -> dict[str, int]:
    """Return the token IDs: first the bytes, then the merges."""
    tokens = dict.fromkeys([*byte_symbols(), *(left + right for left, right in merges(texts))])
    return {token: index for index, token in enumerate(tokens)}


def special_ids(texts: Sequence[str], special_tokens: Sequence[str]) -> dict[str, int]:
    """Return the IDs of the special tokens, which follow the vocabulary in the same order."""
    first = len(vocabulary(texts))
    return {token: first + offset for offset, token in enumerate(special_tokens)}


def write_tokenizer(folder: Path, texts: Sequence[str], special_tokens: Sequence[str]) -> None:
    """Write vocab.json, merges.txt and tokenizer_config.json of a checkpoint.

    As in published checkpoints, there is no tokenizer.json.
    """
    lines = ["#version: 0.2", *(f"{left} {right}" for left, right in merges(texts))]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "vocab.json").write_text(json.dumps(vocabulary(texts), ensure_ascii=False), encoding="utf-8")
    config = {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(index): {
                "content": token,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for token, index in special_ids(texts, special_tokens).items()
        },
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
