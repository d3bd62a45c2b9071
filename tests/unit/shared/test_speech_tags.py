"""Tags in a text are acted on or left out, however it comes in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.shared.speech_tags import Tags, without_tags

CASES = {
    "Hello there.": "Hello there.",
    'Hello.<break time="1s"/>Nice to meet you.': "Hello. Nice to meet you.",
    "Wait<break time='500ms' />here": "Wait, here",
    '<break time="1s"/>Now': "Now",
    "It is <spell>AB-12</spell>, yes": "It is A, B, 1, 2, , yes",
    '<speed ratio="1.5"/>Fast': "Fast",
    '<volume ratio="0.5"/>soft <emotion value="angry" />no': "soft no",
    "</speed>x": "x",
    '<phoneme alphabet="ipa" ph="ˈtoʊmɑtoʊ">tomato</phoneme> soup': "tomato soup",
    "2 < 3 and <b>bold</b> <3": "2 < 3 and <b>bold</b> <3",
    "<spelling> and <breakfast>": "<spelling> and <breakfast>",
    "unfinished <spe": "unfinished <spe",
    "<SPEED ratio=1/>x": "x",
}


@pytest.mark.parametrize(("text", "spoken"), CASES.items())
def test_a_transcript_is_spoken_so(text: str, spoken: str) -> None:
    assert without_tags(text) == spoken


@given(text=st.sampled_from(sorted(CASES)), cuts=st.lists(st.integers(1, 40), max_size=8))
def test_it_is_the_same_in_pieces(text: str, cuts: list[int]) -> None:
    tags, spoken, start = Tags(), "", 0
    for cut in cuts:
        spoken += tags.add(text[start : start + cut])
        start += cut
    assert spoken + tags.add(text[start:]) + tags.finish() == CASES[text]


def test_what_could_be_a_tag_is_not_held_for_ever() -> None:
    tags = Tags()
    assert tags.add("<break " + "x" * 200) == "<break " + "x" * 200
