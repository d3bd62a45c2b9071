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


# Script that returns the highlighted clause of a take with 1.6 s of audio, whose clauses are estimated to last several
# seconds.
MARKED_CLAUSE = """async ({ begun, state, idle, at }) => {
  const { TypedSpeech } = await import('/js/speak/typed_speech.js');
  const { startTimesOf } = await import('/js/speak/sounding_text.js');
  const texts = ['The boat came back in the evening,', ' and nobody in the village knew it.', ' Then it rained.'];
  let to = 0;
  const clauses = texts.map((text, at) => ({ text, from: to, to: (to += text.length), begun: begun[at] }));
  const arrivedAt = performance.now() - idle;
  const take = { state, seconds: 1.6, arrivals: [{ arrivedAt, samples: 1 }] };
  const typed = Object.setPrototypeOf({ take, clauses, sentAt: arrivedAt - 1 }, TypedSpeech.prototype);
  const range = typed.rangeAt((lengths, from, total) => startTimesOf(lengths, [], total), at);
  return clauses.findIndex((clause) => clause.to === range.to);
}"""


@pytest.mark.parametrize(
    ("begun", "state", "idle", "at", "marked"),
    [
        ([0, None, None], "receiving", 0, 1.5, 0),  # The pace is unknown.
        ([0, None, None], "done", 0, 0.1, 0),
        ([0, None, None], "done", 0, 0.8, 1),
        ([0, None, None], "done", 0, 1.5, 2),
        ([0, None, None], "receiving", 1500, 1.5, 2),  # All audio has arrived.
        ([0, None, 1.2], "receiving", 0, 1.1, 1),  # The third clause begins at a known time.
    ],
)
def test_clause_of_a_fast_voice_is_marked(
    node: Node, begun: list[float | None], state: str, idle: int, at: float, marked: int
) -> None:
    given = {"begun": begun, "state": state, "idle": idle, "at": at}
    assert node.evaluate(MARKED_CLAUSE, given) == marked
