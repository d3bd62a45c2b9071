"""Tests for the detection of names that look alike."""

from __future__ import annotations

import ctypes.util
import unicodedata

import pytest

from runtime.shared.text.confusables import TABLE_FILE, find_confusable
from tools.confusables import Icu

SPEAKERS = ["angus", "clara", "nora", "eric", "uncle_fu", "ono_anna"]


@pytest.mark.parametrize(
    ("name", "speaker"),
    [
        ("ɑngus", "angus"),
        ("CIara", "clara"),
        ("c1ara", "clara"),
        ("Сӏага", "clara"),
        ("Angυs", "angus"),
        ("ang𝗎s", "angus"),
        ("АNGuS", "angus"),
        ("ａｎｇｕｓ", "angus"),
        ("ang\u200dus", "angus"),
        ("ang\u034fus", "angus"),
        ("an\u0332gus", "angus"),
        ("ꓚꓡꓮꓣꓮ", "clara"),
        ("N0ra", "nora"),
        ("Erıс", "eric"),
        ("uncIe_fu", "uncle_fu"),
        ("ono\uff3fаnna", "ono_anna"),
        ("Ϲlara", "clara"),
        ("uncle_ſu", "uncle_fu"),
    ],
)
def test_names_confusable_with_a_speaker_are_found(name: str, speaker: str) -> None:
    assert find_confusable(name, SPEAKERS) == speaker


def test_every_character_of_the_table_that_looks_like_a_letter_is_found() -> None:
    rows = [row.split("\t", 1) for row in TABLE_FILE.read_text(encoding="utf-8").split("\n")[1:-1]]
    letters = [(character, look) for character, look in rows if look.isascii() and look.isalpha()]
    assert len(letters) > 1000
    assert [row for row in letters if find_confusable(f"x{row[0]}y", [f"x{row[1]}y"]) is None] == []


@pytest.mark.parametrize(
    "name", ["DJ Смэш", "Анна TTS", "Ангус", "Κλάρα", "安娜", "Ciara", "Éric", "Nora 2", "Angus B"]
)
def test_distinct_names_are_not_confusable(name: str) -> None:
    assert find_confusable(name, SPEAKERS) is None


def test_capital_i_is_confusable_with_lowercase_l_but_capital_l_is_not() -> None:
    assert find_confusable("lan", ["Ian"]) == "Ian"
    assert find_confusable("Lan", ["Ian"]) is None


def test_one_letter_may_look_like_two_letters() -> None:
    assert find_confusable("rnary", ["Mary"]) == "Mary"
    assert find_confusable("maMа", ["rnarna"]) == "rnarna"


@pytest.mark.skipif(ctypes.util.find_library("icui18n") is None, reason="no ICU on this machine")
def test_confusables_table_equals_the_data_of_icu() -> None:
    icu = Icu()
    lines = TABLE_FILE.read_text(encoding="utf-8").split("\n")
    if icu.unicode_version() not in lines[0]:
        pytest.skip("another version of Unicode")
    for line in lines[1:-1:16]:
        character, prototype = line.split("\t", 1)
        assert unicodedata.normalize("NFD", icu.skeleton(character)) == prototype
