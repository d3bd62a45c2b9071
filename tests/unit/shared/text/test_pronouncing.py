"""Tests for pronunciation dictionaries on streamed text.

The result must equal that for the complete text. The matching rules are tested in tests/js.
"""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from runtime.settings import Limits
from runtime.shared.text.inline_tags import tag_pattern
from runtime.shared.text.pronouncing import Dictionary, Entry, GrowingPronunciation, dictionary_of, replace_words
from tests.support.least_times import least_times

MAX_RATIO = 3.0  # Maximum ratio of the durations for double the input. The ratio is 4 if the time is quadratic.
TAG = tag_pattern(Limits(max_instruct_chars=12), brackets=True)
ENTRIES = (
    *(("New York", "the Apple"), ("York", "Yorick"), ("Nguyen", "Win"), ("3", "three"), ("café", "coffee")),
    *(("重庆", "崇庆"), ("C++", "see"), ("US", "U S"), ("us", "us two"), ("Town", "borough", True)),
)


def grown(*pieces: str, markup: str = "") -> str:
    growing = GrowingPronunciation(dictionary_of(ENTRIES, markup))
    return "".join(map(growing.feed_text, pieces)) + growing.finish()


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


@given(parts=st.lists(st.sampled_from(PARTS), max_size=16), markup=st.sampled_from(["", TAG]), data=st.data())
def test_any_chunking_gives_the_result_of_the_complete_text(parts: list[str], markup: str, data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    pieces = [text[start:stop] for start, stop in pairwise([0, *cuts, len(text)])]
    assert grown(*pieces, markup=markup) == replace_words(text, ENTRIES, markup)[0]


def test_text_that_cannot_start_a_match_is_emitted_immediately() -> None:
    growing = GrowingPronunciation(dictionary_of(ENTRIES, TAG))
    assert growing.feed_text("Hello new wor") == "Hello new wor"
    assert growing.feed_text("ld, N") == "ld, "
    assert growing.feed_text("guyen") == ""
    assert growing.feed_text(".") == "Win."
    assert growing.feed_text(" New Yor") == " "
    assert growing.feed_text("d") == "New Yord"


def test_flush_emits_the_buffer_except_an_incomplete_tag() -> None:
    growing = GrowingPronunciation(dictionary_of(ENTRIES, TAG))
    assert growing.feed_text("Ask Nguyen") == "Ask "
    assert growing.flush() == "Win"
    assert growing.feed_text(" [Ngu") == " "
    assert growing.flush() == ""
    assert growing.feed_text("yen] [pau") == "[Win] "
    assert growing.flush() == ""
    assert growing.feed_text("se] Nguyen") == "[pause] "
    assert growing.finish() == "Win"


@pytest.mark.parametrize("length", [1, 200_000])
def test_long_text_without_matches_is_emitted_completely(length: int) -> None:
    text = "a b " * length
    growing = GrowingPronunciation(dictionary_of(ENTRIES, ""))
    assert growing.feed_text(text) == text


def test_case_sensitive_entry_matches_only_its_case_and_hides_no_shorter_entry() -> None:
    entries: list[Entry] = [("US", "you ess", True), ("US Army", "the army", True), ("army", "force")]
    assert replace_words("US us Us US Army us army", entries) == ("you ess us Us the army us force", 3)


def by_one_pattern(text: str, entries: list[Entry], markup: str) -> str:
    """Return the text with all entries applied by a single, slow regular expression."""
    letter = r"(?![\p{Han}])[\p{L}\p{M}\p{N}]"

    def whole(word: str, *exact: bool) -> str:
        middle = r"\s{1,8}".join(map(regex.escape, word.split()))
        before = (f"(?<!{letter})" if regex.match(letter, word) else "") + (r"(?<!\p{N}[.,])" if word[0] == "3" else "")
        behind = f"(?!{letter})" if regex.match(letter, word[-1]) else ""
        behind += r"(?![.,]\p{N})" if word[-1] == "3" else ""
        return before + middle + (f"(?<=(?-i:{middle}))" if any(exact) else "") + behind

    def said(found: regex.Match[str]) -> str:
        there = " ".join(found[0].split())
        written = [said for word, said, *_ in entries if word == there]
        folded = [said for word, said, *exact in entries if not any(exact) and word.lower() == there.lower()]
        return found[0] if found[1] is None else next(iter(written + folded))

    words = "|".join(whole(word, *exact) for word, _, *exact in sorted(entries, key=lambda entry: -len(entry[0])))
    return regex.sub(f"{markup or '(?!)'}|({words or '(?!)'})", said, text, flags=regex.V0 | regex.IGNORECASE)


WORDS = st.text("abAB3.é重[] ", min_size=1, max_size=12).map(lambda word: " ".join(word.split())).filter(bool)


@given(
    entries=st.lists(
        st.tuples(WORDS, st.sampled_from("123"), st.booleans()), max_size=6, unique_by=lambda entry: entry[0]
    ),
    text=st.lists(st.sampled_from([*"abAB3.,é重[] ", " " * 8, " " * 9, "<s a='", "'>"]), max_size=24).map("".join),
    markup=st.sampled_from(["", TAG]),
    piece=st.integers(1, 8),
)
def test_matches_equal_the_matches_of_one_combined_pattern(
    entries: list[Entry], text: str, markup: str, piece: int
) -> None:
    expected = by_one_pattern(text, entries, markup)
    assert replace_words(text, entries, markup)[0] == expected
    growing = GrowingPronunciation(dictionary_of(tuple(entries), markup))
    pieces = [growing.feed_text(text[start : start + piece]) for start in range(0, len(text), piece)]
    assert "".join(pieces) + growing.finish() == expected


def test_dictionaries_compile_in_linear_time() -> None:
    """800 entries with 40 letters and 39 spaces are the maximum of one request.

    The compilation of a single pattern with these entries would take 6 s.
    """

    def seconds_of(count: int) -> float:
        words = (f"{number:040b}".replace("0", "á").replace("1", "é") for number in range(count))
        entries = [(" ".join(word), "x") for word in words]
        begin = time.thread_time()
        Dictionary(entries, TAG)
        return time.thread_time() - begin

    short, long = least_times(lambda: seconds_of(400), lambda: seconds_of(800), MAX_RATIO)
    assert long < MAX_RATIO * short
