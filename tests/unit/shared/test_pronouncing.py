"""Words that are said otherwise in a text that grows: the same as in the whole. The rules are in tests/js."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.settings import Limits
from runtime.shared.inline_tags import tag_pattern
from runtime.shared.pronouncing import Entry, GrowingPronunciation, dictionary_of, pronounced

TAG = tag_pattern(Limits(max_instruct_chars=12), brackets=True)
ENTRIES = (
    *(("New York", "the Apple"), ("York", "Yorick"), ("Nguyen", "Win"), ("3", "three"), ("café", "coffee")),
    *(("重庆", "崇庆"), ("C++", "see"), ("US", "U S"), ("us", "us two"), ("Town", "borough", True)),
)


def grown(*pieces: str, apart: str = "") -> str:
    growing = GrowingPronunciation(dictionary_of(ENTRIES, apart))
    return "".join(map(growing.add, pieces)) + growing.finish()


PARTS = [
    *(
        "New",
        " ",
        "York",
        "  ",
        "\n",
        "Nguyen",
        "s",
        "3",
        ".",
        ",",
        "5",
        "cafe",
        "\u0301",
        "é",
        "重",
        "庆",
        "市",
        "C",
        "+",
    ),
    *("US", "us", "U", "[", "]", "x", "NEW", "Town", "!", "<s a='", "'>", "<", "='"),
]


@given(parts=st.lists(st.sampled_from(PARTS), max_size=16), apart=st.sampled_from(["", TAG]), data=st.data())
def test_any_pieces_give_the_whole(parts: list[str], apart: str, data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    pieces = [text[start:stop] for start, stop in pairwise([0, *cuts, len(text)])]
    assert grown(*pieces, apart=apart) == pronounced(text, ENTRIES, apart)[0]


def test_nothing_is_held_back_that_no_word_begins_in() -> None:
    growing = GrowingPronunciation(dictionary_of(ENTRIES, TAG))
    assert growing.add("Hello new wor") == "Hello new wor"
    assert growing.add("ld, N") == "ld, "
    assert growing.add("guyen") == ""
    assert growing.add(".") == "Win."
    assert growing.add(" New Yor") == " "
    assert growing.add("d") == "New Yord"


def test_a_flush_gives_out_what_is_held_but_for_a_tag() -> None:
    growing = GrowingPronunciation(dictionary_of(ENTRIES, TAG))
    assert growing.add("Ask Nguyen") == "Ask "
    assert growing.flush() == "Win"
    assert growing.add(" [Ngu") == " "
    assert growing.flush() == ""
    assert growing.add("yen] Nguyen") == "[Nguyen] "
    assert growing.finish() == "Win"


@pytest.mark.parametrize("length", [1, 200_000])
def test_a_long_text_without_a_word_is_given_out_whole(length: int) -> None:
    text = "a b " * length
    growing = GrowingPronunciation(dictionary_of(ENTRIES, ""))
    assert growing.add(text) == text


def test_an_exact_word_is_found_in_its_own_case_and_hides_no_shorter_one() -> None:
    entries: list[Entry] = [("US", "you ess", True), ("US Army", "the army", True), ("army", "force")]
    assert pronounced("US us Us US Army us army", entries) == ("you ess us Us the army us force", 3)


def one_by_one(text: str, entries: list[Entry]) -> str:
    """The slow way: at every place each word is tried, the longest first, as it is written before any other case."""
    spoken, at = "", 0
    while at < len(text):
        for word, said, *exact in sorted(
            entries, key=lambda entry: (-len(entry[0]), not text.startswith(entry[0], at))
        ):
            there, end = text[at : at + len(word)], at + len(word)
            is_whole = not (text[:at][-1:].isalpha() or text[end : end + 1].isalpha())
            if is_whole and (there == word or (not any(exact) and there.lower() == word.lower())):
                spoken, at = spoken + said, end
                break
        else:
            spoken, at = spoken + text[at], at + 1
    return spoken


WORDS = st.text("abAB ", min_size=1, max_size=12).map(lambda word: " ".join(word.split())).filter(bool)


@given(
    entries=st.lists(
        st.tuples(WORDS, st.sampled_from("123"), st.booleans()), max_size=6, unique_by=lambda entry: entry[0]
    ),
    text=st.text("abAB ", max_size=24).map(lambda text: " ".join(text.split())),
)
def test_words_that_share_their_beginnings_are_found_as_if_each_were_tried(entries: list[Entry], text: str) -> None:
    assert pronounced(text, entries)[0] == one_by_one(text, entries)
