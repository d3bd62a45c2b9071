"""A small byte-level BPE in Qwen2's file format: vocab.json, merges.txt and tokenizer_config.json.

Any UTF-8 text has ids, since every byte is a token; the words below are single tokens too.
"""

from __future__ import annotations

import json
from pathlib import Path

# Earlier words win when merges compete. The first two must come out whole in every checkpoint; the next two
# do only if the pre-tokenizer is Qwen2's own, since others cut at the inner capital.
WORDS = (
    *("assistant", "user", "iPhone", "McDonald", "the", "and", "ing", "you", "is", "er", "speak", "voice"),
    *("hello", "world", "clear", "calm", "low", "happy", "warm", "young", "old", "slow", "costs", "phone"),
    *("in", "Los", "Angeles", "\u4f60", "\u597d", "\u6211", "\u7684", "\u58f0", "\u97f3", "\u8bf4"),
)


def byte_symbols() -> list[str]:
    """Give every byte the printable character that GPT-2's byte-level BPE writes for it."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    symbols = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(256) if byte not in symbols)
    symbols |= {byte: chr(256 + offset) for offset, byte in enumerate(others)}
    return [symbols[byte] for byte in range(256)]


def merges() -> list[tuple[str, str]]:
    """Build every word from its left, bare and with a space before it, as a list of ranked merges."""
    symbols = byte_symbols()
    ranked: dict[tuple[str, str], None] = {}
    for text in [*WORDS, *(" " + word for word in WORDS[2:])]:
        pieces = [symbols[byte] for byte in text.encode()]
        for end in range(1, len(pieces)):
            ranked.setdefault(("".join(pieces[:end]), pieces[end]))
    return list(ranked)


def vocabulary() -> dict[str, int]:
    """Number the bytes, then what the merges make."""
    tokens = dict.fromkeys([*byte_symbols(), *(left + right for left, right in merges())])
    return {token: index for index, token in enumerate(tokens)}


def special_ids(special_tokens: tuple[str, ...]) -> dict[str, int]:
    """Number the special tokens after the vocabulary, in the order given."""
    first = len(vocabulary())
    return {token: first + offset for offset, token in enumerate(special_tokens)}


def write_tokenizer(folder: Path, special_tokens: tuple[str, ...]) -> None:
    """Write the three tokenizer files of a checkpoint; no tokenizer.json, as published."""
    lines = ["#version: 0.2", *(f"{left} {right}" for left, right in merges())]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "vocab.json").write_text(json.dumps(vocabulary(), ensure_ascii=False), encoding="utf-8")
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
            for token, index in special_ids(special_tokens).items()
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
