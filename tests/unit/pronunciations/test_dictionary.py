"""Tests for the pronunciation dictionary file: versions, limits and imported lexicons."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import InvalidConfig
from runtime.pronunciations.dictionary import (
    KEPT_BYTES,
    MAX_BYTES,
    MAX_VERSIONS,
    MAX_WORDS,
    Word,
    new_dictionary,
    read,
    write,
)
from runtime.pronunciations.lexicon import Lexicon, read_lexicon, write_lexicon

NGUYEN = Word("Nguyen", "Win")
LARGEST = [Word(f"{number:03}" + "\x01" * 77, "\x01" * 200, case_sensitive=True) for number in range(200)]


def test_written_dictionary_reads_back_equal() -> None:
    made = new_dictionary(" Names ", [NGUYEN, Word("US", "you ess", case_sensitive=True)], 5.5, description="Ours.")
    changed = replace(made.with_words([NGUYEN], 7.0), archived_at=8.0)
    assert read(write(changed)) == changed
    assert changed.name == "Names"
    assert [len(version.words) for version in changed.versions] == [2, 1]
    assert changed.version(None) == changed.latest
    assert changed.version(made.latest.id) == made.latest
    assert changed.version("0" * 32) is None
    with pytest.raises(InvalidConfig):
        new_dictionary("", [], 1.0)


def test_unchanged_words_make_no_new_version_and_old_versions_expire() -> None:
    made = new_dictionary("Names", [NGUYEN], 1.0)
    assert made.with_words([NGUYEN], 2.0) is made
    for number in range(MAX_VERSIONS + 3):
        made = made.with_words([Word("Nguyen", f"Win {number}")], float(number))
    assert len(made.versions) == MAX_VERSIONS
    assert made.latest.words == (Word("Nguyen", f"Win {MAX_VERSIONS + 2}"),)


def test_file_keeps_as_many_versions_as_fit_and_the_largest_reads_back() -> None:
    made = new_dictionary("Names", LARGEST[:60], 1.0).with_words(LARGEST[:59], 2.0)
    assert [len(version.words) for version in read(write(made)).versions] == [60, 59]
    largest = made.with_words(LARGEST, 3.0)
    assert KEPT_BYTES < len(write(largest)) < MAX_BYTES
    assert read(write(largest)).versions == (largest.latest,)


FIELDS = json.loads(write(new_dictionary("Names", [NGUYEN], 1.0)))
VERSION = FIELDS["versions"][0]
WRONG: list[dict[str, Any]] = [
    {"format": "voicewright.pronunciations.v2"},
    {"name": 7},
    {"name": " "},
    {"name": "x" * 65},
    {"description": "x" * 501},
    {"id": "../../etc/passwd"},
    {"created_at": "now"},
    {"created_at": True},
    {"archived_at": -1},
    {"more": 1},
    {"versions": []},
    {"versions": {}},
    {"versions": None},
    {"versions": [VERSION] * (MAX_VERSIONS + 1)},
    {"versions": [{**VERSION, "id": "x"}]},
    {"versions": [{**VERSION, "words": VERSION["words"] * (MAX_WORDS + 1)}]},
    {"versions": [{**VERSION, "words": [{"word": "", "say_as": "x"}]}]},
    {"versions": [{**VERSION, "words": [{"word": "x", "say_as": "y" * 201}]}]},
    {"versions": [{**VERSION, "words": [{"word": "x", "say_as": "y", "case_sensitive": 1}]}]},
    {"versions": [{**VERSION, "words": [{"word": "x"}]}]},
    {"versions": [7]},
]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_invalid_dictionary_is_refused(wrong: dict[str, Any]) -> None:
    read(json.dumps(FIELDS).encode())
    with pytest.raises(ValueError, match=r"it |in it|true or false"):
        read(json.dumps({**FIELDS, **wrong}).encode())


@given(st.binary(max_size=64) | st.text(max_size=64).map(str.encode))
def test_arbitrary_bytes_read_as_a_dictionary_raise_only_value_errors(data: bytes) -> None:
    for reader in (read, read_lexicon):
        with pytest.raises(ValueError, match=r"."):
            reader(data)


LEXICON = """<?xml version="1.0" encoding="UTF-8"?>
<lexicon version="1.0" xmlns="http://www.w3.org/2005/01/pronunciation-lexicon" alphabet="ipa" xml:lang="en-US">
  <!-- two ways to write it -->
  <lexeme><grapheme>UN</grapheme><grapheme> U.N. </grapheme><alias>United
    Nations</alias></lexeme>
</lexicon>
"""


def test_lexicon_is_parsed_into_words() -> None:
    words = (
        Word("UN", "United Nations", case_sensitive=True),
        Word("U.N.", "United Nations", case_sensitive=True),
    )
    assert read_lexicon(LEXICON.encode()) == read_lexicon(write_lexicon(words)) == Lexicon(words)
    assert b"<grapheme>a &lt; b</grapheme>" in write_lexicon([Word("a \x01< b", "less")])


def test_unusable_words_of_a_lexicon_are_left_out_and_listed() -> None:
    spoken = "<lexeme><grapheme>tomato</grapheme><phoneme>təmˈɑːtəʊ</phoneme></lexeme>"
    empty = "<lexeme><grapheme>void</grapheme><alias> </alias></lexeme><lexeme><grapheme/><alias>x</alias></lexeme>"
    lexicon = read_lexicon(LEXICON.replace("<lexeme>", f"{spoken}{empty}{spoken}<lexeme>", 1).encode())
    assert [word.word for word in lexicon.words] == ["UN", "U.N."]
    assert lexicon.left_out == ("tomato", "void", "")
    assert lexicon.note is not None
    assert lexicon.note.endswith(": tomato, void, (empty).")
    many = "".join(spoken.replace("tomato", f"word {number}") for number in range(60))
    note = read_lexicon(LEXICON.replace("<lexeme>", f"{many}<lexeme>", 1).encode()).note
    assert note is not None
    assert note.endswith("word 9 and 50 more.")


@pytest.mark.parametrize("true", ["true", "1"])
def test_preferred_alias_and_first_homograph_of_a_lexicon_are_used(true: str) -> None:
    homographs = "".join(f"<lexeme><grapheme>read</grapheme><alias>{said}</alias></lexeme>" for said in ("reed", "red"))
    preferred = LEXICON.replace("<alias>", f'<alias>You en</alias><alias prefer="{true}">').replace(
        "<lexeme>", homographs + "<lexeme>"
    )
    lexicon = read_lexicon(preferred.encode())
    assert [(word.word, word.say_as) for word in lexicon.words] == [
        ("read", "reed"),
        ("UN", "United Nations"),
        ("U.N.", "United Nations"),
    ]
    assert lexicon.left_out == ("read",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LEXICON.replace("alias>", "phoneme>"), r"phonemes are not supported.*: UN, U\.N\.$"),
        (LEXICON.replace("lexicon", "words"), "is not lexicon"),
        (LEXICON.replace("lexeme", "word"), "1 to 200 words"),
        (re.sub("<grapheme>.*</grapheme>", f"<grapheme>{'U' * 81}</grapheme>", LEXICON), "80 characters.*: U{80}$"),
        (LEXICON.replace("<lexeme>", "<lexeme"), "not XML"),
        (LEXICON.replace("<lexicon ", '<!DOCTYPE lexicon [<!ENTITY a "aaaa">]><lexicon '), "DOCTYPE"),
        ("<" * (MAX_BYTES + 1), "bytes"),
    ],
)
def test_invalid_or_phonetic_lexicon_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_lexicon(text.encode())
