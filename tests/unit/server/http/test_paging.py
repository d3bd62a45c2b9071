"""Tests for pagination: forward and backward pages contain each item once."""

from __future__ import annotations

import pytest

from runtime.errors import InvalidConfig
from runtime.server.http.paging import page, page_size

LISTED = [*"abcdefg"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_forward_pages_concatenate_to_the_list(size: int) -> None:
    for listed in (LISTED, LISTED[:1], []):
        found, cursor, has_more = [], "", True
        while has_more:
            one = page(listed, str, size, cursor)
            found += one.items
            has_more = one.has_more
            cursor = found[-1] if found else ""
        assert found == listed


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_backward_pages_concatenate_to_the_list(size: int) -> None:
    found, cursor, has_more = ["g"], "g", True
    while has_more:
        one = page(LISTED, str, size, "", cursor)
        found = [*one.items, *found]
        has_more, cursor = one.has_more, found[0]
    assert found == LISTED


def test_unknown_cursor_is_ignored() -> None:
    assert page(LISTED, str, 2, "gone", "gone too").items == ["a", "b"]
    assert page(LISTED, str, 2, "b", "gone").items == ["c", "d"]


@pytest.mark.parametrize("size", ["0", "101", "", "x", "-1", "00019999"])
def test_page_size_error_contains_its_parameter(size: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        page_size(size, "limit")
    assert caught.value.param == "limit"
    assert page_size("100", "limit") == 100
