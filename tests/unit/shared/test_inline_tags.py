"""Inline tags: what is a tag, what is text, and the same items for any pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import PausesTooLong, PauseTooLong, SpeechError, TagTooLong
from runtime.settings import Limits
from runtime.shared.inline_tags import InlineTags, Item, Pause, Style, last_style, untagged

LIMITS = Limits(max_instruct_chars=12, max_pause_s=10, max_pauses_s=15)


def items_of(*pieces: str, limits: Limits = LIMITS) -> list[Item]:
    """What comes of a text in pieces, neighbouring text joined."""
    tags, joined = InlineTags(limits), list[Item]()
    for item in [item for piece in pieces for item in tags.add(piece)] + tags.finish():
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
        ("a [x] \nb", ["a ", Style("x"), "\nb"]),
        ("see [1] and [...] and []", ["see [1] and [...] and []"]),
        ("shut ] and [open", ["shut ] and [open"]),
        ("[a [b] c]", ["[a ", Style("b"), "c]"]),
        ("[not\na tag]", ["[not\na tag]"]),
        ("[........................]", ["[........................]"]),
        ("a [b" + "b" * 20 + " [x] c", ["a [b" + "b" * 20 + " ", Style("x"), "c"]),
    ],
)
def test_what_is_a_tag_and_what_is_text(text: str, items: list[Item]) -> None:
    assert items_of(text) == items
    assert items_of(*text) == items


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("A [very very long style] b", TagTooLong),
        ("A [pause 10.5s] b", PauseTooLong),
        ("[pause 9s] a [pause 7s]", PausesTooLong),
    ],
)
def test_what_asks_for_too_much_is_refused(text: str, error: type[SpeechError]) -> None:
    for pieces in ([text], [*text]):
        with pytest.raises(error):
            items_of(*pieces)


def outcome(*pieces: str) -> list[Item] | type[SpeechError]:
    try:
        return items_of(*pieces)
    except SpeechError as error:
        return type(error)


TEXTS = st.lists(
    st.sampled_from(["[", "]", " ", "\n", "a", "1", "pause", ":", "9s", "[x]", "[pause 3]", "neutral", "longer"]),
    max_size=24,
).map("".join)


@given(text=TEXTS, data=st.data())
def test_any_pieces_give_the_items_of_the_whole(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6).map(sorted))
    pieces = [text[start:stop] for start, stop in pairwise([0, *cuts, len(text)])]
    assert outcome(*pieces) == outcome(text)


def test_text_goes_on_at_once_where_no_tag_can_come_of_it() -> None:
    tags = InlineTags(LIMITS)
    assert tags.add("Hello [exc") == ["Hello "]
    assert tags.add("ited] you") == [Style("excited"), "you"]
    assert tags.add(" [what is no tag any more") == [" [what is no tag any more"]
    assert tags.add(" and goes on") == [" and goes on"]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("[sad] It rains. [pause 1s] Still.", "It rains. Still."),
        ("word[whisper]word [1] [a", "wordword [1] [a"),
        ("a [x]\nb", "a \nb"),
    ],
)
def test_people_read_a_text_without_its_tags(text: str, read: str) -> None:
    assert untagged(text) == read


@pytest.mark.parametrize(
    ("text", "tag"), [("[sad] a [pause 1s] b", "[sad]"), ("[sad] a [ Neutral ]", "[ Neutral ]"), ("[pause] [1] a", "")]
)
def test_the_last_style_of_a_text(text: str, tag: str) -> None:
    assert last_style(text, LIMITS) == tag
