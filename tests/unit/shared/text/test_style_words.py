"""Tests that distinguish style tags from other text in square brackets."""

from __future__ import annotations

import pytest

from runtime.shared.text.style_words import is_style_description


@pytest.mark.parametrize(
    "text",
    [
        "excited",
        "Whispering",
        "tired, almost laughing",
        "very slowly and quietly",
        "matter-of-fact",
        "in a low voice",
        "难过",
        "笑着说",
        "很温柔的语气",
        "低声，缓慢地说",
        "囁いて",
        "traurig",
        "très doucement",
        "шёпотом",
        "속삭이며",
    ],
)
def test_style_descriptions_are_recognised(text: str) -> None:
    assert is_style_description(text)


@pytest.mark.parametrize(
    "text",
    [
        "sic",
        "to Tom, his brother",
        "to",
        "MUSIC",
        "door slams",
        "Angry Birds",
        "with",
        "a",
        "见上文",
        "累了的马",
        "",
        "1",
    ],
)
def test_bracketed_prose_is_not_parsed_as_a_style(text: str) -> None:
    assert not is_style_description(text)
