"""Tests for the ASCII spelling of texts, for checkpoints trained only on ASCII."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.model.text.ascii_spelling import drops_characters, to_ascii
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("Café, naïve, jalapeño, Zürich", "Cafe, naive, jalapeno, Zurich"),
        ("cafe\u0301", "cafe"),
        ("Straße, STRAẞE, Łódź, Ørsted, Ærø, œuvre", "Strasse, STRASSE, Lodz, Orsted, Aero, oeuvre"),
        ("Đà Nẵng, Þór, İstanbul, kız, ǿ, ŉ", "Da Nang, Thor, Istanbul, kiz, o, 'n"),
        ("“It’s ‘late’,” he said…", "\"It's 'late',\" he said..."),
        ("1990–2000, well‑known, a man—old—came", "1990-2000, well-known, a man - old - came"),
        ("ﬁne ＡＢ１２，ok！ Ⅳ 𝐀", "fine AB12,ok! IV A"),
        ("soft\u00adhyphen\u200b no\u00a0break", "softhyphen no break"),
    ],
)
def test_characters_with_a_transliteration_are_replaced(text: str, spelled: str) -> None:
    assert to_ascii(text) == spelled
    assert not drops_characters(text)


@pytest.mark.parametrize(
    "text", ["Москва", "Ωμέγα", "你好", "ありがとう", "مرحبا", "٤٢", "🙂👍🏽", "\ufffd", "→", "x⁼", "≮"]
)
def test_characters_without_a_transliteration_are_left_out_and_noted(text: str) -> None:
    assert to_ascii(f"Hello {text} there").replace("x", "").split() == ["Hello", "there"]
    assert drops_characters(text)


@pytest.mark.parametrize("text", ["5 €", "½", "x²", "20 °C", "3 × 4", "soft\u00ad\u200b\ufe0f", "Acme™"])
def test_named_symbols_are_kept_and_invisible_characters_are_not_noted(text: str) -> None:
    assert not drops_characters(text)


def test_removing_a_character_does_not_form_a_control_token() -> None:
    assert to_ascii("<|im_🙂end|>") == "<|im_ end|>"


@settings(max_examples=examples(300), deadline=None)
@example(text="<\u0338—ʼ", place=1)
@given(text=st.text(max_size=24), place=st.integers(0, 24))
def test_transliteration_is_incremental_and_idempotent(text: str, place: int) -> None:
    assert to_ascii(text[:place]) + to_ascii(text[place:]) == to_ascii(text)
    assert to_ascii(to_ascii(text)) == to_ascii(text)
    assert to_ascii(text) == text or not text.isascii()
