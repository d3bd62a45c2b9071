"""Tests for the detection of writing systems that a checkpoint's languages do not use."""

from __future__ import annotations

import pytest

from runtime.shared.text.scripts import find_unsupported_script

ENGLISH, ALL = ("English",), ("chinese", "english", "japanese", "korean", "russian", "beijing_dialect")


@pytest.mark.parametrize(
    ("text", "languages", "script"),
    [
        ("The kettle is on, naïvely — 3 µm, α = ½, 𝑥².", ENGLISH, ""),
        ("Zażółć gęślą jaźń", ENGLISH, ""),
        ("The sign says 水.", ENGLISH, "cjk"),
        ("Привет", ENGLISH, "cyrillic"),
        ("かな", ENGLISH, "hiragana"),
        ("مرحبا", ALL, "arabic"),
        ("水が、かな、カナ、한글, Привет", ALL, ""),
        ("水", ("beijing_dialect",), ""),
        ("Привет, ไทย", ("Russian",), "thai"),
        ("水", (), ""),
        ("①②③ 🎧 …", ENGLISH, ""),
        ("ℝ and ℓ of 300 \u212a, itʼs xⁱ", ENGLISH, ""),
        ("時々、〆切、ｱｲｳ", ("japanese",), ""),
        ("時々", ENGLISH, "cjk"),
        ("々", ENGLISH, "cjk"),
    ],
)
def test_first_unsupported_writing_system_is_found(text: str, languages: tuple[str, ...], script: str) -> None:
    assert find_unsupported_script(text, languages) == script
