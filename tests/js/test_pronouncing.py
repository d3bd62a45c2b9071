"""Tests for the pronunciation dictionary: page, studio and list files behave the same."""

from __future__ import annotations

import pytest
import regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.shared.text import ssml
from runtime.shared.text.inline_tags import is_tag
from runtime.shared.text.pronouncing import replace_words
from studio.store.pronunciations import TAG_PATTERN
from tests.js.conftest import Node

CASES = {
    "whole words in any case": ("Ask Nguyen, NGUYEN and nguyens.", {"Nguyen": "Win"}, "Ask Win, Win and nguyens.", 2),
    "as it is written comes first": ("Tell us of the US.", {"US": "U S", "us": "us"}, "Tell us of the U S.", 1),
    "the longest first, over any space": (
        *("New York\nCity, new  york, York", {"York": "Yorick", "New York": "the Apple"}),
        *("the Apple\nCity, the Apple, Yorick", 3),
    ),
    "a text without spaces": ("重庆在重庆市，重复。", {"重庆": "崇庆", "重庆市": "崇庆城"}, "崇庆在崇庆城，重复。", 2),
    "letters beside characters": ("GPT模型 and GPT4", {"GPT": "G P T"}, "G P T模型 and GPT4", 1),
    "not inside a pause": ("s [pause 0.5s] pause", {"pause": "rest", "s": "ess"}, "ess [pause 0.5s] rest", 2),
    "not inside a tag": ("s [so sad] sad [sad", {"sad": "glad", "s": "ess"}, "ess [so sad] glad [glad", 3),
    "in brackets that are no tag": (
        *("[sic] and [Nguyen] said [a Nguyen", {"Nguyen": "Win", "sic": "so"}),
        *("[so] and [Win] said [a Win", 3),
    ),
    "brackets as a word": ("I did [sic] go [laughs]", {"[sic]": "so", "laughs": "grins"}, "I did so go [laughs]", 1),
    "no tag is made in brackets": ("[Ann] and Ann [Ann Bo]", {"Ann": "softly"}, "[Ann] and softly [softly Bo]", 2),
    "no replacement is a tag": ("Ann and Bo", {"Ann": "[laughs]", "Bo": "a < b"}, "laughs and a  b", 2),
    "not inside SSML": (
        '<break time="1s"/> <s> s time',
        {"s": "ess", "time": "hour"},
        '<break time="1s"/> <s> ess hour',
        2,
    ),
    "no SSML is made of text": (
        "<Ann> </ Ann> <3> <Ann Bo='1s'/> <say-Ann b='c'> Ann",
        {"Ann": "break", "Bo": "time", "3": "p"},
        "<Ann> </ Ann> <3> <Ann Bo='1s'/> <say-break b='c'> break",
        2,
    ),
    "in angle brackets that are no tag": ("<Ann> if Ann <3 b", {"Ann": "Anna", "3": "p"}, "<Anna> if Anna <p b", 3),
    "never twice over one place": ("one two", {"one": "two", "two": "one"}, "two one", 2),
    "signs in a word": (
        "C++ and a.b, not aXb; a_b",
        {"C++": "see plus", "a.b": "dot"},
        "see plus and dot, not aXb; a_b",
        2,
    ),
    "a number is not a part of one": ("3.5 or 3, 13, 3.", {"3": "three"}, "3.5 or three, 13, three.", 2),
    "an accent written in two ways": ("cafe\u0301 CAFÉ cafes", {"café": "coffee"}, "coffee coffee cafes", 2),
    "a dotless i is another letter": ("Işık IŞIK ışık", {"işik": "light", "ışık": "glow"}, "Işık light glow", 2),
    "signs that patterns know": ("costs", {"costs": r"$& \1 $1"}, r"$& \1 $1", 1),
    "nothing to say otherwise": ("Nothing.", {}, "Nothing.", 0),
}


PIECES = (
    *(
        "[",
        "]",
        "[",
        "]",
        " ",
        " ",
        "\n",
        ".",
        "Ann",
        "Bo",
        "sic",
        "3",
        "laughs",
        "softly",
        "pause",
        "1s",
        ":",
        "style:",
        "neutral",
    ),
    *("<break time='1s'/>", "<s>", "</", "<", ">", "s", "重", "and"),
)
SAID = ("softly", "[laughs]", "Win", "pause", "1s", "重", "<s>", "]", "[", "break", "s")


@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=16),
    words=st.dictionaries(
        st.sampled_from(["Ann", "Bo", "sic", "3", "s", "laughs", "1s"]), st.sampled_from(SAID), min_size=1
    ),
)
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_page_and_studio_replace_words_in_random_texts_identically_and_form_no_tag(
    node: Node, pieces: list[str], words: dict[str, str]
) -> None:
    text = "".join(pieces)
    entries = [{"word": word, "said": said} for word, said in words.items()]
    spoken, places = replace_words(text, words.items(), TAG_PATTERN)
    assert node.call("speak/pronunciation", "replaceWords", text, entries) == {"text": spoken, "count": places}
    assert tags_of(spoken) == tags_of(text)


def tags_of(text: str) -> list[str]:
    brackets = [found for found in regex.findall(r"\[[^\[\]\n]*\]", text) if is_tag(found)]
    return brackets + ssml.TAG.findall(text)


@pytest.mark.parametrize(("text", "words", "spoken", "places"), CASES.values(), ids=CASES)
def test_page_and_studio_apply_pronunciations_identically(
    node: Node, text: str, words: dict[str, str], spoken: str, places: int
) -> None:
    entries = [{"word": word, "said": said} for word, said in words.items()]
    assert replace_words(text, words.items(), TAG_PATTERN) == (spoken, places)
    assert node.call("speak/pronunciation", "replaceWords", text, entries) == {"text": spoken, "count": places}


def test_pronunciation_list_written_to_a_file_is_read_back_equal(node: Node) -> None:
    entries = [{"word": 'the "x", y', "said": "ex; why"}, {"word": "重庆", "said": "崇庆"}]
    written = node.call("speak/pronunciation", "writeWordList", entries)
    assert written == 'word,said as\r\n"the ""x"", y","ex; why"\r\n重庆,崇庆\r\n'
    assert node.call("speak/pronunciation", "readWordList", "\ufeff" + written) == {"entries": entries, "leftOut": 0}


def test_spreadsheet_lists_are_parsed_and_invalid_rows_skipped(node: Node) -> None:
    text = 'Nguyen\tWin\n\nQwen ; Kwen\nalone\none,two,three\n,empty\nGUI,gooey\n"open'
    read = node.call("speak/pronunciation", "readWordList", text)
    found = [(entry["word"], entry["said"]) for entry in read["entries"]]
    assert found == [("Nguyen", "Win"), ("Qwen", "Kwen"), ("GUI", "gooey")]
    assert read["leftOut"] == 4


@pytest.mark.parametrize("heading", ["word,said", "Word;Say as", "term\talias", '"Words","Said as"'])
def test_header_row_of_a_spreadsheet_is_not_a_pronunciation(node: Node, heading: str) -> None:
    read = node.call("speak/pronunciation", "readWordList", f"{heading}\nGIF,jif\n")
    assert read == {"entries": [{"word": "GIF", "said": "jif"}], "leftOut": 0}


def test_pronunciation_edits_of_two_windows_are_merged(node: Node) -> None:
    def words(**said: str) -> list[dict[str, str]]:
        return [{"word": word, "said": how} for word, how in said.items()]

    before = words(a="1", b="2", c="3", d="4")
    mine = words(a="1", b="mine", d="4", e="5")  # The entry "c" is deleted.
    theirs = words(a="theirs", b="2", c="3", f="6")  # The entry "d" is deleted.
    assert node.call("speak/pronunciation", "mergedWords", before, mine, theirs) == words(
        a="theirs", b="mine", f="6", e="5"
    )
