"""Tests for the inline tag parser: the result does not depend on the chunks of the text."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import PausesTooLong, PauseTooLong, SpeechError, TagTooLong
from runtime.settings import Limits
from runtime.shared.text.inline_tags import (
    InlineTags,
    Item,
    LeftOut,
    NoTag,
    Pause,
    ReadText,
    Style,
    last_style,
    untagged,
)

LIMITS = Limits(max_instruct_chars=24, max_pause_s=10, max_pauses_s=15)


def items_of(*pieces: str, limits: Limits = LIMITS, **options: Any) -> list[Item]:
    """Return the parsed items of a text that arrives in pieces, with adjacent texts joined."""
    tags, joined = InlineTags(limits, **options), list[Item]()
    for item in [item for piece in pieces for item in tags.feed_text(piece)] + tags.finish():
        if isinstance(item, str) and joined and isinstance(joined[-1], str):
            joined[-1] += item
        else:
            joined.append(item)
    return joined


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("Hello world.", ["Hello world."]),
        ("[excited] Hi! [neutral] Bye.", [Style("excited"), "Hi! ", Style(""), "Bye."]),
        ("[tired,  sad] Oh.", [Style("tired, sad"), "Oh."]),
        ("A[pause:500ms]b", ["A", Pause(0.5), "b"]),
        ("A [pause] b [Pause 2] c", ["A ", Pause(0.5), "b ", Pause(2), "c"]),
        ("[break: 1,5 s][pause=1s]", [Pause(1.5), Pause(1)]),
        ("[pause 2 sec]", [Pause(2)]),
        ("[累了]好的", [Style("累了"), "好的"]),
        ("word[whisper]word", ["word", Style("whisper"), "word"]),
        ("a [sad] \nb", ["a ", Style("sad"), "\nb"]),
        ("see [1] and [...] and []", ["see [1] and [...] and []"]),
        ("shut ] and [open", ["shut ] and [open"]),
        ("[a [sad] c]", ["[a ", Style("sad"), "c]"]),
        ("He [sic] said.", ["He ", NoTag(), "[sic] said."]),
        ("[to Tom, his brother] Go.", [NoTag(), "[to Tom, his brother] Go."]),
        ("[pause 5 minutes] a", [NoTag(), "[pause 5 minutes] a"]),
        ("[style: to Tom] Go.", [Style("to Tom"), "Go."]),
        ("[see <break time='1s'/> it]", ["[see ", Pause(1), "it]"]),
        ("[not\na tag]", ["[not\na tag]"]),
        ("[..............................]", ["[..............................]"]),
        ("a [b" + "b" * 30 + " [sad] c", ["a [b" + "b" * 30 + " ", Style("sad"), "c"]),
    ],
)
def test_tags_are_distinguished_from_text(text: str, items: list[Item]) -> None:
    assert items_of(text) == items
    assert items_of(*text) == items


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ('A <break time="800ms"/> b', ["A ", Pause(0.8), "b"]),
        ("A<BREAK TIME='1.2S' />b", ["A", Pause(1.2), "b"]),
        ('A <break time="1s"> b</break>', ["A ", Pause(1), "b "]),
        ("A <break time=1,5sec strength=weak/>b", ["A ", Pause(1.5), "b"]),
        ("A <break strength='x-strong'/>b", ["A ", Pause(1.25), "b"]),
        ("A <break/>b <break time='soon'/>c", ["A ", Pause(0.75), "b ", Pause(0.75), "c"]),
        ('A <break time="1s" and so on', ["A ", Pause(1), "and so on"]),
        ('A <break time="1s"。', ["A ", Pause(1), "。"]),
        ("A <break time='1s", ["A ", Pause(1)]),
        ("[open <break time='1s'/> [sad] c", ["[open ", Pause(1), Style("sad"), "c"]),
        (
            "<speak><p>One</p>two <emphasis level='strong'>thr</emphasis>ee</speak>",
            [LeftOut(), LeftOut(), "One two ", LeftOut(), "three "],
        ),
        ('<?xml version="1.0"?>\n<prosody\nrate="slow">a', [LeftOut(), "\n", LeftOut(), "a"]),
        ('<mstts:express-as style="sad">a', [LeftOut(), "a"]),
        (
            "a < b, <3, <breakfast>, --voice <voice> <b>c</b> <break",
            ["a < b, <3, <breakfast>, --voice <voice> <b>c</b> <break"],
        ),
        ("<sub alias='" + "x" * 300 + "'>", ["<sub alias='" + "x" * 300 + "'>"]),
    ],
)
def test_ssml_tags_become_pauses_or_are_left_out(text: str, items: list[Item]) -> None:
    assert items_of(text) == items
    assert items_of(*text) == items


def test_ssml_break_is_omitted_or_limited_as_requested() -> None:
    text = "One<break time='9s'/>two[x].<break/> Three"
    left_out = ["One ", LeftOut(), "two[x]. ", LeftOut(), "Three"]
    assert items_of(text, brackets=False, max_break_s=None) == left_out
    assert items_of(text, brackets=False, max_break_s=3.0) == ["One", Pause(3), "two[x].", Pause(0.75), " Three"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("A <break time='11s'/> b", PauseTooLong),
        ("A [style: a very very long style] b", TagTooLong),
        ("A [pause 10.5s] b", PauseTooLong),
        ("[pause 9s] a <break time='7s'/>", PausesTooLong),
    ],
)
def test_too_long_pauses_and_too_many_tags_are_refused(text: str, error: type[SpeechError]) -> None:
    for pieces in ([text], [*text]):
        with pytest.raises(error):
            items_of(*pieces)


def outcome(*pieces: str) -> list[Item] | type[SpeechError]:
    try:
        return items_of(*pieces)
    except SpeechError as error:
        return type(error)


def in_pieces(text: str, data: st.DataObject) -> list[str]:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6).map(sorted))
    return [text[start:stop] for start, stop in pairwise([0, *cuts, len(text)])]


BRACKETS = [
    "[",
    "]",
    " ",
    "\n",
    "a",
    "1",
    "pause",
    ":",
    "9s",
    "[sad]",
    "[x]",
    "[pause 3]",
    "neutral",
    "style:",
    "longer",
]
SSML = [
    "<",
    ">",
    "/",
    "<break",
    "<p>",
    "</",
    "<voice",
    " ",
    " time",
    "=",
    '"',
    "'",
    "1s",
    '"1s"',
    "a",
    "。",
    "s",
    "x" * 140,
]


@pytest.mark.parametrize("parts", [BRACKETS, SSML, BRACKETS + SSML])
@given(data=st.data())
def test_any_chunking_gives_the_items_of_the_complete_text(parts: list[str], data: st.DataObject) -> None:
    text = data.draw(st.lists(st.sampled_from(parts), max_size=24).map("".join))
    assert outcome(*in_pieces(text, data)) == outcome(text)


def test_text_that_cannot_be_part_of_a_tag_is_emitted_immediately() -> None:
    tags = InlineTags(LIMITS)
    assert tags.feed_text("Hello [exc") == ["Hello "]
    assert tags.feed_text("ited] you") == [Style("excited"), "you"]
    assert tags.feed_text(" [what is no tag here any more") == [" [what is no tag here any more"]
    assert tags.feed_text(" and goes on") == [" and goes on"]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("[sad] It rains. [pause 1s] Still.", "It rains. Still."),
        ("word[whisper]word [1] [a", "wordword [1] [a"),
        ("a [sad]\nb", "a \nb"),
        ("[sic] a [style: to Tom] b", "[sic] a b"),
        ("One<break time='1s'/>two <break/> three, f<emphasis level='strong'>ou</emphasis>r", "One two three, four"),
    ],
)
def test_display_text_has_no_tags(text: str, read: str) -> None:
    assert untagged(text) == read
    words = ReadText(LIMITS, brackets=True)
    assert "".join(map(words.feed_text, text)) + words.finish() == read


@pytest.mark.parametrize(
    ("text", "tag"),
    [("[sad] a [pause 1s] b", "[sad]"), ("[sad] a [ Neutral ]", "[ Neutral ]"), ("[pause] [sic] [1] a", "")],
)
def test_last_style_of_a_text_is_found(text: str, tag: str) -> None:
    assert last_style(text, LIMITS) == tag
