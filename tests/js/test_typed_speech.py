"""Tests for the clauses and edits of a text that is spoken while the user types it."""

from __future__ import annotations

import pytest

from tests.js.conftest import Node

MODULE = "speak/typed_speech"


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("Hello the", ""),
        ("Hello there,", "Hello there,"),
        ("Hello there. ", "Hello there. "),
        ("Hello there.", ""),  # This full stop could belong to an abbreviation or an address.
        ("Mr. ", ""),
        ("J. ", ""),
        ("1,000 and 10:30 at https://a.b/c?d=1", ""),
        ("It costs 3.14, ", "It costs 3.14, "),
        ("Really?", "Really?"),
        ('"Come," she sai', '"Come,'),
        ("One, two - thr", "One, two - "),
        ("One\nTw", "One\n"),
        ("他说，你", "他说，"),
        ("你好。", "你好。"),
        ("[pause: 500ms", ""),
        ("Now, [pause: 500ms", "Now,"),
        ('Now, <break time="1s', "Now,"),
        ("", ""),
    ],
)
def test_finished_clauses_are_detected(node: Node, text: str, finished: str) -> None:
    assert text[: node.call(MODULE, "finishedLength", text)] == finished


@pytest.mark.parametrize(
    ("before", "after", "caret", "edit"),
    [
        ("", "a", None, (0, 0, 1)),
        ("ab", "abc", None, (2, 0, 1)),
        ("abc", "ab", None, (2, 1, 0)),
        ("abcd", "aXd", None, (1, 2, 1)),
        ("aa", "aaa", None, (2, 0, 1)),
        ("aa", "aaa", 0, (0, 0, 1)),
        ("The kettle.", "T", 0, (0, 11, 1)),  # The typed letter is equal to the first letter of the replaced text.
        ("same", "same", None, (4, 0, 0)),
    ],
)
def test_edit_is_computed_from_the_text_before_and_after(
    node: Node, before: str, after: str, caret: int | None, edit: tuple[int, int, int]
) -> None:
    arguments = [before, after] if caret is None else [before, after, caret]
    found = node.call(MODULE, "editOf", *arguments)
    assert (found["start"], found["removed"], found["added"]) == edit


def test_positions_in_the_text_are_updated_after_an_edit(node: Node) -> None:
    edit = {"start": 2, "removed": 3, "added": 1}
    assert [node.call(MODULE, "positionAfterEdit", position, edit) for position in (0, 2, 3, 5, 8)] == [0, 2, 2, 3, 6]
