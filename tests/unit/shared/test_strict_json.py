"""Tests for the strict JSON parser: accepted values survive a round trip."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.shared.strict_json import MAX_DEPTH, MAX_DIGITS, parse, parse_object

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(VALUES)
def test_storable_json_is_unchanged(value: object) -> None:
    assert parse(json.dumps(value)) == value
    assert parse(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        (b"\xff\xfe\xfd", "cannot be read"),
        ("[NaN]", "not finite"),
        ("[-Infinity]", "not finite"),
        ("[1e999]", "not finite"),
        ("9" * (MAX_DIGITS + 1), "too long"),
        ("9" * 4000, "too long"),
        ("-" + "9" * 5000, "too long"),
        (r'{"a": "\ud800"}', "half a character"),
        (r'{"\udfff": 1}', "half a character"),
        (b'["\xed\xa0\x80"]', "half a character"),
        ('{"a": 1, "a": 2}', "twice"),
        ("[" * (MAX_DEPTH + 1) + "1" + "]" * (MAX_DEPTH + 1), "levels"),
        ("[" * 960 + "]" * 960, "levels"),
        ("[" * 100_000 + "]" * 100_000, "levels"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "levels"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_json_that_cannot_be_stored_is_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(text)


def test_maximum_depth_and_digits_are_accepted() -> None:
    parse("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH)
    assert parse("9" * MAX_DIGITS) == int("9" * MAX_DIGITS)


def test_parse_object_accepts_objects_only() -> None:
    assert parse_object('{"a": []}') == {"a": []}
    with pytest.raises(ValueError, match="not an object"):
        parse_object("[]")
