"""Tests for file names for downloads, which contain user text."""

from __future__ import annotations

import pytest

from runtime.shared.file_names import disposition, file_name


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("The kettle is on.", "The kettle is on.wav"),
        ("The quick brown fox jumps over the lazy dog and runs away into the forest", None),
        ("one/two\\three: \x00 four", "one two three four.wav"),
        ("  . ", "take.wav"),
        ("字" * 80, "字" * 60 + ".wav"),
        ("a" * 59 + " b", "a" * 59 + ".wav"),
        ("a" * 60 + " b", "a" * 60 + ".wav"),
        ("CON", "_CON.wav"),
        ("nul.", "_nul.wav"),
        ("Com1.Then we left", "_Com1.Then we left.wav"),
        ("LPT³ .x", "_LPT³ .x.wav"),
        ("CONOUT$", "_CONOUT$.wav"),
        ("Contact", "Contact.wav"),
        ("nul and void", "nul and void.wav"),
        ("COM10", "COM10.wav"),
    ],
)
def test_file_name_is_readable_and_cut_between_words(words: str, name: str | None) -> None:
    assert file_name(words, "wav") == (name or "The quick brown fox jumps over the lazy dog and runs away.wav")


def test_file_name_in_any_script_is_unchanged_in_the_header() -> None:
    assert disposition("安娜.voice") == "attachment; filename=\"__.voice\"; filename*=UTF-8''%E5%AE%89%E5%A8%9C.voice"
