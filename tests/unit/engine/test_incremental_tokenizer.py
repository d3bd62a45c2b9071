"""Tests that text in chunks gets the same token IDs as the complete text."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.engine.text.incremental_tokenizer import IncrementalTokenizer
from runtime.engine.text.text_stream import TextStream
from runtime.errors import InvalidConfig
from runtime.model.checkpoints.config_files import read_model_config
from runtime.model.text.text_tokenizer import TextTokenizer
from runtime.request import Split
from runtime.settings import DEMO_CHECKPOINT, Limits
from tests.support.checkpoints import TINY, write_checkpoint
from tests.support.examples import examples


class OnePerPiece(TextTokenizer):
    """Fake tokenizer with one ID per distinct piece, so that any wrong split changes IDs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, read_model_config(folder))
        self._numbers: dict[tuple[int, ...], int] = {}

    def encode_pieces(self, text: str) -> list[tuple[int, list[int]]]:
        return [
            (start, [self._numbers.setdefault(tuple(ids), len(self._numbers))])
            for start, ids in super().encode_pieces(text)
        ]

    def encode_text(self, text: str) -> list[int]:
        return [token for _, ids in self.encode_pieces(text) for token in ids]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TextTokenizer]:
    tiny = tmp_path_factory.mktemp("tiny")
    write_checkpoint(tiny, TINY, "custom_voice", 1)
    return {
        "tiny": TextTokenizer(tiny, read_model_config(tiny)),
        "demo": TextTokenizer(DEMO_CHECKPOINT, read_model_config(DEMO_CHECKPOINT)),
        "ascii": TextTokenizer(tiny, replace(read_model_config(tiny), alphabet="ascii")),
        "pieces": OnePerPiece(tiny),
    }


def grown(tokenizer: TextTokenizer, chunks: Iterable[str]) -> list[int]:
    growing = IncrementalTokenizer(tokenizer)
    ids = [token for chunk in chunks for token in growing.feed_text(chunk)]
    return ids + growing.flush()


def cut(text: str, places: Iterable[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


NASTY = (
    "Hello world, the old phone is slow.",
    "don't, we'll, they've, I'D, 'tis, rock'n'roll ''s 'ſ 're'll",
    "3.14 is not 22/7; call 555-0199 at 10:30",
    "one\r\ntwo\r\n\r\n three \n\n\n four\t\tfive  six   \n seven",
    "wait!!\n\n\"Yes?\" -- she said...\r\n('no')",
    "你好，我的声音说。你好 我的。iPhone手机100元",
    "สวัสดีครับ ก็ดี น้ำใจ กุ่ง",
    "مرحبا بالعالم، كيف الحال؟ مَرْحَبًا",
    "안녕하세요 오늘은 각 각나 각",
    "🙂👨‍👩‍👧‍👦 family 🇰🇷 ok 👍🏽!",
    "def f(x):\n    return x[0] ** 2  # speaking\n\n\nclass A:\n\tpass",
    "e\u0301t\u0316\u0301 a\u0301\u0302 <\u0338 \u0301x !\u0301 が゙ か\u3099",
    "क्षत्रिय को \u09c7\u09be \u0bc6\u0bbe \u1025\u102e",
    "nbsp\u00a0here\u2003em\u3000ideographic \x1c sep\x85nel\u2028ls",
    "\ufeff\u200bzero\u200b width \u0378 unassigned \U0001e900",
    "x!\x1c",
    "  \n\t lead and trail \x1c \n ",
    "iPhone McDonald Los Angeles $5.00 costs-you",
    "ǅ ⅷ ² ½ ٣ ৩ 〇 ﬁ Å ﬀ",
)


@pytest.mark.parametrize("name", ["tiny", "demo", "ascii", "pieces"])
@pytest.mark.parametrize("text", NASTY)
def test_appended_text_gives_the_token_ids_of_the_complete_text(
    tokenizers: dict[str, TextTokenizer], name: str, text: str
) -> None:
    tokenizer = tokenizers[name]
    whole = tokenizer.encode_text(text.strip())
    assert grown(tokenizer, text) == whole
    for place in range(len(text) + 1):
        assert grown(tokenizer, cut(text, [place])) == whole, place
        assert grown(tokenizer, cut(text, [place, place + 1, place + 3])) == whole, place


ALPHABET = "aeors' \n\r\t.,!?-<'3٣你好，。กุ่็ا\u0301\u0316\u0338\u1100\u1161\u11a8각🙂\u200d\u00a0\u3000\x1c\u0378é"
WORDS = ("hello", " world", "speaking", "iPhone", "你好", "'ll", "'s", "  ", "\n\n", "\r\n")
mixed = st.lists(st.sampled_from([*ALPHABET, *WORDS]) | st.characters(exclude_categories=("Cs",)), max_size=24)


@settings(max_examples=examples(300), deadline=None)
@example(pieces=["e", "\u0316", "\u0301"])
@example(pieces=["!", "\x1c", " "])
@given(pieces=mixed)
def test_any_chunking_gives_the_token_ids_of_the_complete_text(
    tokenizers: dict[str, TextTokenizer], pieces: list[str]
) -> None:
    text = "".join(pieces)
    for name in ("tiny", "ascii", "pieces"):
        assert grown(tokenizers[name], pieces) == tokenizers[name].encode_text(text.strip()), name
        assert grown(tokenizers[name], text) == tokenizers[name].encode_text(text.strip()), name


@pytest.mark.parametrize(
    ("chunks", "certain"),
    [
        (["Hello"], ""),
        (["Hello", " "], "Hello"),
        (["Hello wor"], "Hello"),
        (["Hello wor", "ld, "], "Hello world,"),
        (["don"], ""),
        (["don'"], "don"),
        (["don't", " "], "don't"),
        (["3.14"], "3.1"),
        (["a!", "!", "\n"], "a"),
        (["a \n", " \n"], "a"),
        (["  ", "\n a", " "], "a"),
        (["你好我的"], ""),
        (["你好我的", "，"], "你好我的"),
        (["cafe", "\u0301", " "], "café"),
    ],
)
def test_token_ids_are_emitted_as_early_as_possible(
    tokenizers: dict[str, TextTokenizer], chunks: list[str], certain: str
) -> None:
    growing = IncrementalTokenizer(tokenizers["tiny"])
    ids = [token for chunk in chunks for token in growing.feed_text(chunk)]
    assert ids == tokenizers["tiny"].encode_text(certain)


def test_flush_emits_a_partial_word_and_keeps_white_space(tokenizers: dict[str, TextTokenizer]) -> None:
    tiny = tokenizers["tiny"]
    growing = IncrementalTokenizer(tiny)
    assert growing.feed_text("hello wor") + growing.flush() == tiny.encode_text("hello wor")
    assert growing.flush() == []
    assert growing.feed_text("ld ") == tiny.encode_text("ld")
    assert growing.flush() == []
    assert (
        growing.feed_text("world.") + growing.flush()
        == tiny.encode_text("hello world.")[len(tiny.encode_text("hello")) :]
    )


def test_flush_at_a_word_end_changes_no_token_id(tokenizers: dict[str, TextTokenizer]) -> None:
    tiny = tokenizers["tiny"]
    growing = IncrementalTokenizer(tiny)
    ids = [
        *growing.feed_text("hello"),
        *growing.flush(),
        *growing.feed_text(" world"),
        *growing.flush(),
        *growing.flush(),
    ]
    assert ids == tiny.encode_text("hello world")


@pytest.mark.parametrize("by_token", [True, False])
@pytest.mark.parametrize(
    "chunks", [["<|im_end|>"], ["so <", "|im_end|>"], [*"so <|im_end|>"], ["<tts_", "pad>"], ["\ud83d"]]
)
def test_control_token_split_over_chunks_is_refused(
    tokenizers: dict[str, TextTokenizer], chunks: list[str], by_token: bool
) -> None:
    growing = TextStream(Split.AUTO, None, tokenizers["tiny"], Limits(), by_token=by_token)
    with pytest.raises(InvalidConfig) as caught:
        [growing.append_text(chunk) for chunk in chunks]
    assert caught.value.param == "text"


@pytest.mark.parametrize("by_token", [True, False])
def test_control_token_in_a_transliterated_form_is_refused(
    tokenizers: dict[str, TextTokenizer], *, by_token: bool
) -> None:
    chunks = ["so <|im" + "\u0301" * 40, "\uff3f\u0301end|>"]
    growing = TextStream(Split.AUTO, None, tokenizers["ascii"], Limits(), by_token=by_token)
    growing.append_text(chunks[0])
    with pytest.raises(InvalidConfig):
        growing.append_text(chunks[1])
    published = TextStream(Split.AUTO, None, tokenizers["tiny"], Limits(), by_token=by_token)
    for chunk in chunks:
        published.append_text(chunk)


def test_empty_text_has_no_token_ids(tokenizers: dict[str, TextTokenizer]) -> None:
    assert grown(tokenizers["tiny"], []) == grown(tokenizers["tiny"], [" ", "\n"]) == []


def test_chinese_prose_is_buffered_for_about_one_clause(tokenizers: dict[str, TextTokenizer]) -> None:
    """The text is added one character at a time.

    After each character, the buffered text without IDs is measured.
    """
    prose = "今天早上天气很好，我们一起去公园散步。路上遇到一位老朋友，他说最近工作很忙，但是身体还不错。"
    growing = IncrementalTokenizer(tokenizers["tiny"])
    held = []
    for character in prose:
        growing.feed_text(character)
        held.append(len(growing.tail))
    assert 5 < max(held) < 15


def test_thousands_of_small_appends_cost_linear_time(tokenizers: dict[str, TextTokenizer]) -> None:
    """Tokenizing the whole text after every append would take minutes."""
    growing = IncrementalTokenizer(tokenizers["tiny"])
    started = time.thread_time()
    for _ in range(4000):
        for token in ("the", " old", " pho", "ne", ". "):
            growing.feed_text(token)
        assert len(growing.tail) < 8
    assert time.thread_time() - started < 20


def test_long_word_is_not_encoded_repeatedly(tokenizers: dict[str, TextTokenizer]) -> None:
    calls = 0

    class Counting(IncrementalTokenizer):
        def _settled(self) -> list[int]:
            nonlocal calls
            calls += 1
            return super()._settled()

    growing = Counting(tokenizers["tiny"])
    for _ in range(2000):
        assert growing.feed_text("好") == []
    assert calls == 1
    assert growing.flush() == tokenizers["tiny"].encode_text("好" * 2000)
