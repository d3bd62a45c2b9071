"""Tests for the removal of a language model's reasoning from streamed text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.markdown.thoughts import GrowingThoughts, without_thoughts
from runtime.server.text.filter import FilterPipeline, create_text_filters


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("<think>Hm.\nWell.</think>\nHello.", "\nHello."),
        ("Hello.\n  <THINK>Hm.</Think>Bye.", "Hello.\nBye."),
        ("<thinking>One.</thinking><reasoning>Two.</reasoning> Three.", " Three."),
        ("<think>Never ends. Hello.", ""),
        ("Use the tag <think> here.</think>", "Use the tag <think> here.</think>"),
        ("<thin", "<thin"),
        ("<thinker>Hello.", "<thinker>Hello."),
        ("", ""),
    ],
)
def test_reasoning_blocks_at_the_start_of_a_line_are_left_out(text: str, spoken: str) -> None:
    assert without_thoughts(text) == spoken


@given(
    st.lists(
        st.sampled_from(["<think>", "</think>", "<th", "ink>", " ", "\n", "Hi.", "<", "</thi", "nk>"]), max_size=12
    )
)
def test_chunking_does_not_change_the_filtered_text(parts: list[str]) -> None:
    text = "".join(parts)
    for size in (1, 3, 7):
        growing = GrowingThoughts()
        pieces = [growing.feed_text(text[at : at + size]) for at in range(0, len(text), size)]
        assert "".join(pieces) + growing.finish() == without_thoughts(text)


def test_text_after_a_tag_is_emitted_immediately() -> None:
    growing = GrowingThoughts()
    assert growing.feed_text("Hello, ") == "Hello, "
    assert growing.feed_text("world.\n<") == "world.\n"
    assert growing.flush() == "<"
    assert growing.feed_text("think>Hi.") == "think>Hi."


def test_markdown_filter_leaves_out_thoughts() -> None:
    spoken = FilterPipeline(create_text_filters("markdown"))
    assert (
        spoken.feed_text("<think>Plan: *wave*.</think>\n\n**Hello** there.") + spoken.finish()
    ).strip() == "Hello there."
    plain = FilterPipeline(create_text_filters("none"))
    assert plain.feed_text("<think>Hm.</think>") + plain.finish() == "<think>Hm.</think>"


@pytest.mark.parametrize("text", ["\n" * 200_000, "<think>" * 30_000, "<think>" + "x" * 400_000, " <" * 100_000])
def test_filter_time_is_linear_in_the_text(text: str) -> None:
    began = time.process_time()
    without_thoughts(text)
    assert time.process_time() - began < 3
