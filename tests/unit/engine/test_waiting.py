"""Tests for the waiting queue: order of starts, positions, estimates and timeouts."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.engine.scheduling.sequence import Sequence, SequenceState
from runtime.engine.scheduling.waiting_queue import FRONT_REQUESTS, POSITION_INTERVAL_S, WaitingQueue
from runtime.errors import GenerationFailed, QueueTimeout
from runtime.request import Queued
from tests.support.engines import EventRecorder, custom_voice


class Voices:
    """Fake voice cache that encodes a voice when the test requests it."""

    def __init__(self) -> None:
        self.reading: dict[str, Future[Any]] = {}

    def get(self, key: str) -> None:
        return None

    def make(self, reference: object, key: str, done: Callable[[], None]) -> Future[Any]:
        return self.reading.setdefault(key, Future())

    def store(self, key: str, future: Future[Any]) -> Any:
        return future.result()


def sequence_of(ticket: int, *, is_ready: bool = True, voice: str | None = None, caller: str = "") -> Sequence:
    sequence, text = Sequence(ticket, custom_voice(caller=caller), EventRecorder()), SimpleNamespace(is_ready=is_ready)
    admission = SimpleNamespace(reference=voice, voice_key=voice)
    sequence.admit(admission, text, 0, 0.0)  # type: ignore[arg-type]
    return sequence


def queue_of(count: int, slots: int = 2, timeout_s: float = 10.0) -> WaitingQueue:
    queue = WaitingQueue()
    queue.open(Voices(), slots, timeout_s, lambda: None)  # type: ignore[arg-type]
    for ticket in range(count):
        queue.add_request(sequence_of(ticket), now=float(ticket))
    return queue


def heard_by(sequence: Sequence | None) -> EventRecorder:
    assert sequence is not None
    assert isinstance(sequence.sink, EventRecorder)
    return sequence.sink


def test_requests_are_served_first_come_first_served() -> None:
    queue = queue_of(3)
    assert [queue.next().ticket for _ in range(3)] == [0, 1, 2]
    assert len(queue) == queue.ready == 0


def test_first_request_that_needs_only_a_slot_is_served_first() -> None:
    queue, late = queue_of(0), sequence_of(0, is_ready=False)
    queue.add_request(late, 0.0)
    queue.add_request(sequence_of(1), 1.0)
    assert (late.state, queue.ready, queue.unready, queue.waiting_for_text) == (SequenceState.NO_TEXT, 1, 1, 1)
    late.text_stream = SimpleNamespace(is_ready=True)  # type: ignore[assignment]
    queue.update_request(late, 2.0)
    assert (late.state, queue.ready, queue.unready, queue.waiting_for_text) == (SequenceState.NO_SLOT, 2, 0, 0)
    assert [queue.next().ticket for _ in range(2)] == [1, 0]
    assert late.queued == 2.0


def test_request_waits_for_its_voice_to_be_encoded() -> None:
    queue = queue_of(0)
    queue.add_request(sequence_of(0, voice="one"), 0.0)
    queue.add_request(sequence_of(1, voice="other"), 0.0)
    queue.add_request(sequence_of(2, voice="one", is_ready=False), 0.0)
    assert [queue.find(ticket).state for ticket in range(3)] == [  # type: ignore[union-attr]
        SequenceState.NO_VOICE,
        SequenceState.NO_VOICE,
        SequenceState.NO_TEXT,
    ]
    queue.voices.reading["one"].set_result("a voice")  # type: ignore[attr-defined]
    assert list(queue.collect_voices(1.0)) == []
    assert queue.ready == 1
    assert queue.next().voice == "a voice"
    assert queue.unready == 2


@pytest.mark.logs_errors
def test_voice_encoding_failure_removes_its_requests() -> None:
    queue = queue_of(1)
    queue.add_request(sequence_of(7, voice="bad"), 0.0)
    queue.voices.reading["bad"].set_exception(OSError())  # type: ignore[attr-defined]
    ((sequence, error),) = queue.collect_voices(1.0)
    assert (sequence.ticket, type(error), len(queue)) == (7, GenerationFailed, 1)


def test_requests_are_held_until_the_checkpoint_is_loaded() -> None:
    queue = WaitingQueue()
    sequences = [Sequence(ticket, custom_voice(), EventRecorder()) for ticket in range(3)]
    for place, sequence in enumerate(sequences):
        queue.add_without_checkpoint(sequence)
        assert heard_by(sequence).events == [Queued(place)]
    assert queue.withdraw(1) is sequences[1]
    assert queue.withdraw(1) is None
    assert queue.remove_loaded() == [sequences[0], sequences[2]]
    assert len(queue) == 0


def test_queue_positions_are_reported_once_and_when_they_change() -> None:
    queue = queue_of(3)
    recorders = [heard_by(queue.find(ticket)) for ticket in range(3)]
    queue.report_places(7.0)
    queue.report_places(7.0)
    assert [recorder.positions for recorder in recorders] == [[0], [1], [2]]
    queue.next()
    queue.report_places(7.0)
    assert [recorder.positions for recorder in recorders] == [[0], [1, 0], [2, 1]]


def test_queue_positions_of_many_requests_are_reported_at_intervals() -> None:
    queue = queue_of(FRONT_REQUESTS + 2)
    last = heard_by(queue.find(FRONT_REQUESTS + 1))
    queue.report_places(7.0)
    queue.next()
    queue.report_places(7.1)
    assert last.positions == [FRONT_REQUESTS + 1], "all were told a moment ago"
    queue.report_places(7.0 + POSITION_INTERVAL_S)
    assert last.positions == [FRONT_REQUESTS + 1, FRONT_REQUESTS]


def test_there_is_no_wait_estimate_before_a_slot_was_released() -> None:
    assert queue_of(1).wait_s(0) is None


def test_wait_estimate_follows_recent_slot_holding_times() -> None:
    queue = queue_of(4, slots=2)
    queue.record_released_slot("", 6.0)
    assert [queue.wait_s(place) for place in range(3)] == [3.0, 6.0, 9.0]
    for _ in range(50):
        queue.record_released_slot("", 2.0)
    assert queue.wait_s(1) == pytest.approx(2.0, rel=0.01)


def test_callers_take_turns_and_their_own_requests_keep_order() -> None:
    queue = queue_of(0)
    for ticket, caller in enumerate("aaaabbc"):
        queue.add_request(sequence_of(ticket, caller=caller), float(ticket))
    assert [queue.next().ticket for _ in range(7)] == [0, 4, 6, 1, 5, 2, 3]


def test_caller_with_the_fewest_slots_is_next() -> None:
    queue = queue_of(0)
    for ticket, caller in enumerate("aaab"):
        queue.add_request(sequence_of(ticket, caller=caller), float(ticket))
    assert [queue.next().ticket for _ in range(2)] == [0, 3]
    queue.add_request(sequence_of(4, caller="c"), 4.0)
    assert queue.next().ticket == 4  # The other callers have one slot each.
    queue.record_released_slot("b", 1.0)
    queue.add_request(sequence_of(5, caller="b"), 5.0)
    assert [queue.next().ticket for _ in range(3)] == [5, 1, 2]


def test_reported_queue_position_accounts_for_callers_taking_turns() -> None:
    queue = queue_of(0)
    for ticket, caller in enumerate("aab"):
        queue.add_request(sequence_of(ticket, caller=caller), float(ticket))
    recorders = [heard_by(queue.find(ticket)) for ticket in range(3)]
    queue.report_places(2.0)
    assert [recorder.positions for recorder in recorders] == [[0], [2], [1]]
    queue.add_request(sequence_of(3, caller="c"), 2.1)
    queue.report_places(2.1)
    assert [recorder.positions for recorder in recorders] == [[0], [2, 3], [1]]


def test_timed_out_request_is_removed_and_other_requests_stay() -> None:
    queue = queue_of(4)
    gone = list(queue.remove_expired(11.5))
    assert [sequence.ticket for sequence, _ in gone] == [0, 1]
    assert all(isinstance(error, QueueTimeout) for _, error in gone)
    assert [queue.next().ticket for _ in range(2)] == [2, 3]


def test_withdrawn_request_leaves_the_queue() -> None:
    queue = queue_of(3)
    gone = queue.remove_request(1)
    assert gone is not None
    assert gone.ticket == 1
    assert queue.remove_request(1) is None
    assert [sequence.ticket for sequence in queue.remove_all()] == [0, 2]
