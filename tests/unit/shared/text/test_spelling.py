"""Tests for `<spell>`, whose content is spoken letter by letter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.shared.text.spelling import Spelling

CASES = {
    "Hello there.": "Hello there.",
    "It is <spell>AB-12</spell>, yes": "It is A, B, 1, 2, , yes",
    "It is<SPELL >AB</ spell>": "It is A, B, ",
    '<spell>A<break time="1s"/>B</spell>': 'A, <break time="1s"/>B, ',
    '<speed ratio="1.5"/>Fast': '<speed ratio="1.5"/>Fast',
    "2 < 3 and <b>bold</b> <3": "2 < 3 and <b>bold</b> <3",
    "<spelling> and <breakfast>": "<spelling> and <breakfast>",
    "unfinished <spe": "unfinished <spe",
}


@pytest.mark.parametrize(("text", "spoken"), CASES.items())
def test_text_is_respelled_as_it_is_spoken(text: str, spoken: str) -> None:
    spelling = Spelling()
    assert spelling.feed_text(text) + spelling.finish() == spoken


@given(text=st.sampled_from(sorted(CASES)), cuts=st.lists(st.integers(1, 40), max_size=8))
def test_chunking_does_not_change_the_respelled_text(text: str, cuts: list[int]) -> None:
    spelling, spoken, start = Spelling(), "", 0
    for cut in cuts:
        spoken += spelling.feed_text(text[start : start + cut])
        start += cut
    assert spoken + spelling.feed_text(text[start:]) + spelling.finish() == CASES[text]


def test_possible_tag_is_buffered_up_to_a_limit() -> None:
    spelling = Spelling()
    assert spelling.feed_text("<break " + "x" * 300) == "<break " + "x" * 300
