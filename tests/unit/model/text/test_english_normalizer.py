"""Tests for English text normalization, for complete texts and streamed texts."""

from __future__ import annotations

import re
import time
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.model.text.ascii_spelling import to_ascii
from runtime.model.text.english_normalizer import SYMBOLS, StreamingNormalizer, normalize_english
from tests.support.examples import examples
from tests.support.least_times import least_times

FRAGMENTS = (
    *("Nov. ", "May", "28", ", ", "2026", "$", "5", ".", "50", " ", "km/h", "kWh", "°C", "CHAPTER", "IV", "a", "b"),
    *(
        "www.",
        "http://",
        "x.org",
        "@",
        "p.m.",
        "pm",
        "3:30",
        "½",
        "&",
        "-",
        "\n",
        "Dr.",
        " Smith",
        "No.",
        "etc.",
        "U.S.",
    ),
    *(" The", "USA", "1st", "world", "'", '"', "(", "555-1234", "|", "<", "*", "%", "1990s", "/", "e.g.", "hello", "?"),
    *("!", "million", "k", "<|im_end|>", "_", "⁴", "⁻", "²", "===", "="),
)


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("It costs $5.50, or €3.", "It costs five dollars and fifty cents, or three euros."),
        ("$1.5 million, $0.99, £1, 5€", "one point five million dollars, ninety-nine cents, one pound, five euros"),
        ("12 kWh at 50 km/h", "twelve kilowatt hours at fifty kilometers per hour"),
        ("a 5-km run, 1 km, 6 ft, 20°C", "a five kilometer run, one kilometer, six feet, twenty degrees Celsius"),
        ("CHAPTER ONE", "chapter one"),
        ("CHAPTER IV: THE END", "chapter four: the end"),
        ("NASA, the USA, TVs and OK", "nasa, the you ess ay, tee vees and okay"),
        ("At 3:30 p.m. on Nov. 28, 2026.", "At three thirty pee em on November twenty-eighth, twenty twenty-six."),
        ("Come at 5 p.m. We eat at 12:00.", "Come at five pee em. We eat at twelve o'clock."),
        (
            "Dr. Smith paid £1,200 in 1984.",
            "Doctor Smith paid one thousand two hundred pounds in nineteen eighty-four.",
        ),
        ("2½ apples & 3 pears + 50%.", "two and one half apples and three pears plus fifty percent."),
        ("1st, 22nd and 112th in the 1990s", "first, twenty-second and one hundred twelfth in the nineteen nineties"),
        ("3/4 of pages 10-20, -5, 3.14", "three quarters of pages ten to twenty, minus five, three point one four"),
        (
            "x⁴, 10⁻⁶ and 10²³",
            "x to the power of four, ten to the power of minus six and ten to the power of twenty-three",
        ),
        ("The end.² Then,³ so", "The end. Then, so"),
        ("A note⁴, x² and (a)³", "A note, x squared and (a) cubed "),
        ("Title\n===\na === b && c == d\n=======", "Title\n \na equals b and c equals d\n "),
        ("Call 555-1234.", "Call five five five, one two three four."),
        ("a.b@c.org or https://www.x.org/y", "a dot b at c dot org or x dot org slash y"),
        ("2026-11-28", "November twenty-eighth, twenty twenty-six"),
        ("MP3 and *bold* <b> a_b", "em pee three and bold b a b"),
        ("1234567890123456", "one two three four, five six seven eight, nine zero one two, three four five six"),
        ("It's plain, isn't it? Yes: plain.", "It's plain, isn't it? Yes: plain."),
    ],
)
def test_text_is_normalized_as_an_english_reader_speaks_it(text: str, reading: str) -> None:
    assert normalize_english(text) == reading


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_single_symbol_is_spoken_by_its_name(symbol: str) -> None:
    assert normalize_english(symbol).strip() == SYMBOLS[symbol]


@settings(max_examples=examples(1000), deadline=None)
@given(
    text=st.lists(st.sampled_from(FRAGMENTS), max_size=9).map("".join),
    cuts=st.lists(st.integers(0, 60), max_size=4).map(sorted),
)
def test_streamed_text_is_read_like_the_complete_text(text: str, cuts: list[int]) -> None:
    growing, whole = StreamingNormalizer(), StreamingNormalizer()
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    pieces[-1:] = [text[cuts[-1] if cuts else 0 :]]
    said = "".join(map(growing.feed_text, pieces)) + growing.flush()
    assert said == whole.feed_text(text) + whole.flush()
    assert normalize_english(text).strip() == said.strip()


@settings(max_examples=examples(300), deadline=None)
@given(st.text(max_size=40))
def test_normalized_text_is_ascii_without_parts_of_a_control_token(text: str) -> None:
    reading = normalize_english(to_ascii(text))
    assert reading.isascii()
    assert not re.search("[<>|]", reading)


def test_plain_words_wait_only_for_the_next_word() -> None:
    growing = StreamingNormalizer()
    assert [growing.feed_text(piece) for piece in ("Hello", " world", " of", " words", ".")] == [
        "",
        "Hello ",
        "world ",
        "of ",
        "words",
    ]


@pytest.mark.parametrize("unit", ["1", "a.", "1 2 3,000 ", "+1 (", "10:", "-1", "$ ", "IX", "aaa"])
def test_normalization_time_is_linear_in_the_text(unit: str) -> None:
    def seconds(count: int) -> float:
        growing, text = StreamingNormalizer(), (unit * count)[:count]
        begin = time.thread_time()
        for start in range(0, count, 2):
            growing.feed_text(text[start : start + 2])
        growing.flush()
        return time.thread_time() - begin

    short, long = least_times(partial(seconds, 4096), partial(seconds, 8192), 2.5)
    assert long < 2.5 * short
