"""Text for a checkpoint that knows ASCII alone is spelled in it, and what has no spelling stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.model.ascii_spelling import has_no_spelling, in_ascii
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
def test_what_has_a_spelling_is_spelled(text: str, spelled: str) -> None:
    assert in_ascii(text) == spelled
    assert not has_no_spelling(text)


@pytest.mark.parametrize("text", ["Москва", "Ωμέγα", "你好", "ありがとう", "مرحبا", "٤٢", "½", "x²", "5 €"])
def test_what_has_none_stays_and_is_told(text: str) -> None:
    assert not in_ascii(text).isascii()
    assert has_no_spelling(f"Hello {text} there")


@pytest.mark.parametrize("text", ["≮|im_start|＞", "2½", "x²", "🙂👍🏽", "℃ ™"])
def test_signs_and_numbers_do_not_become_others(text: str) -> None:
    assert in_ascii(text) == text


def test_signs_that_are_not_read_are_not_told_of() -> None:
    assert not has_no_spelling("Hello 🙂 → you…")


@settings(max_examples=examples(300), deadline=None)
@example(text="<\u0338—ʼ", place=1)
@given(text=st.text(max_size=24), place=st.integers(0, 24))
def test_a_text_may_be_spelled_in_pieces_and_twice(text: str, place: int) -> None:
    assert in_ascii(text[:place]) + in_ascii(text[place:]) == in_ascii(text)
    assert in_ascii(in_ascii(text)) == in_ascii(text)
    assert in_ascii(text) == text or not text.isascii()
