"""The line before the slots: places, estimates, patience."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from runtime.engine.line import Line


@dataclass(slots=True, eq=False)
class Waiting:
    ticket: int
    queued: float = 0.0
    place: int = -1


def line_of(count: int, slots: int = 2, patience_s: float = 10.0) -> Line[Waiting]:
    line: Line[Waiting] = Line(slots, patience_s)
    for ticket in range(count):
        line.join(Waiting(ticket, queued=float(ticket)))
    return line


def test_who_came_first_goes_first() -> None:
    line = line_of(3)
    assert [line.next().ticket for _ in range(3)] == [0, 1, 2]
    assert len(line) == 0


def test_places_are_told_once_and_again_when_they_change() -> None:
    line = line_of(3)
    assert [(waiter.ticket, waiter.place) for waiter, _ in line.moved()] == [(0, 0), (1, 1), (2, 2)]
    assert list(line.moved()) == []
    line.next()
    assert [(waiter.ticket, waiter.place) for waiter, _ in line.moved()] == [(1, 0), (2, 1)]


def test_nobody_guesses_before_a_slot_was_given_back() -> None:
    assert line_of(1).wait_s(0) is None


def test_the_estimate_follows_how_long_slots_are_held() -> None:
    line = line_of(4, slots=2)
    line.held(6.0)
    assert [line.wait_s(place) for place in range(3)] == [3.0, 6.0, 9.0]
    for _ in range(50):
        line.held(2.0)
    assert line.wait_s(1) == pytest.approx(2.0, rel=0.01)


def test_who_has_waited_too_long_is_taken_out_and_the_others_stay() -> None:
    line = line_of(4)
    assert [waiter.ticket for waiter in line.impatient(11.5)] == [0, 1]
    assert [waiter.ticket for waiter in line] == [2, 3]


def test_leaving_the_line() -> None:
    line = line_of(3)
    gone = line.leave(1)
    assert gone is not None
    assert gone.ticket == 1
    assert line.leave(1) is None
    assert [waiter.ticket for waiter in line] == [0, 2]
