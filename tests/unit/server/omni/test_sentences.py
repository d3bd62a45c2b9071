"""Tests for vLLM-Omni's sentence splitting for text that arrives in chunks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.request import Split
from runtime.server.omni.sentences import SentenceSplitter


def parts(split: Split, *texts: str) -> list[str]:
    sentences = SentenceSplitter(split)
    return [part for text in texts for part in sentences.feed_text(text)] + sentences.finish()


@pytest.mark.parametrize(
    ("split", "text", "wanted"),
    [
        (Split.NONE, " One. Two! ", ["One. Two!"]),
        (Split.SENTENCE, "One. Two! Three", ["One.", "Two!", "Three"]),
        (Split.SENTENCE, "It costs 3.14, see a.b.c now.", ["It costs 3.14, see a.b.c now."]),
        (Split.SENTENCE, "你好。再见！好", ["你好。", "再见！", "好"]),
        (Split.SENTENCE, "Wait... what?! No.", ["Wait...", "what?!", "No."]),
        (Split.SENTENCE, '. "! Hello. ', ['. "! Hello.']),
        (Split.SENTENCE, "  ", []),
        (Split.CLAUSE, "One, two; three. 1,000", ["One,", "two;", "three.", "1,000"]),
        (Split.CLAUSE, "一，二；三", ["一，", "二；", "三"]),
    ],
)
def test_texts_are_split_like_vllm_omni(split: Split, text: str, wanted: list[str]) -> None:
    assert parts(split, text) == wanted


def test_sentence_is_emitted_when_its_end_is_certain() -> None:
    sentences = SentenceSplitter(Split.SENTENCE)
    assert sentences.feed_text("One") == []
    assert sentences.feed_text(".") == []  # The period may belong to a number such as 1.5.
    assert sentences.feed_text(" T") == ["One."]
    assert sentences.waiting_chars == 1
    assert sentences.finish() == ["T"]
    assert sentences.finish() == []


TEXTS = st.text("ab1 .!?,。，\n\"'", max_size=40)


@given(text=TEXTS, cuts=st.lists(st.integers(0, 40), max_size=6), split=st.sampled_from([Split.SENTENCE, Split.CLAUSE]))
def test_no_letter_is_lost_or_repeated_for_any_chunking(text: str, cuts: list[int], split: Split) -> None:
    edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[start:end] for start, end in itertools.pairwise(edges)]
    found = parts(split, *pieces)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(part == part.strip() != "" for part in found)
    assert all(any(map(str.isalnum, part)) for part in found[:-1])
