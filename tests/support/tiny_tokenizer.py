"""What the tokenizers of tiny checkpoints have as single tokens."""

from __future__ import annotations

# Earlier words win when merges compete. The first two must come out whole in every checkpoint; the next two
# do only if the pre-tokenizer is Qwen2's own, since others cut at the inner capital.
WORDS = (
    *("assistant", "user", "iPhone", "McDonald", "the", "and", "ing", "you", "is", "er", "speak", "voice"),
    *("hello", "world", "clear", "calm", "low", "happy", "warm", "young", "old", "slow", "costs", "phone"),
    *("in", "Los", "Angeles", "\u4f60", "\u597d", "\u6211", "\u7684", "\u58f0", "\u97f3", "\u8bf4"),
)

TOKENS = (*WORDS, *(" " + word for word in WORDS[2:]))
