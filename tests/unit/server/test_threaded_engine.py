"""Tests for the thread that submits requests to the engine."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from runtime.errors import EmptyText, EngineDead, GenerationFailed, Overloaded, SpeechError
from runtime.request import (
    Finished,
    Mode,
    Reference,
    Refused,
    RequestStats,
    Sink,
    SpeechEvent,
    SpeechRequest,
    StopReason,
    VoicePrompt,
)
from runtime.server.threaded_engine import ThreadedEngine
from tests.support.scripted_engine import ScriptedEngine, chunk, finished, started
from tests.support.timeouts import TEST_TIMEOUT_S, until

REQUEST = SpeechRequest(text="Hello.", mode=Mode.CUSTOM_VOICE)
REFERENCE = Reference(samples=np.zeros(24_000, np.float32), text="Words.")
CANCELLED = Finished(stop_reason=StopReason.CANCELLED, stats=RequestStats())


@dataclass(slots=True)
class SlowEngine(ScriptedEngine):
    """Fake engine whose validation of a request blocks until the test sets `may_submit`."""

    is_validating: threading.Event = field(default_factory=threading.Event)
    may_submit: threading.Event = field(default_factory=threading.Event)
    intervals_s: list[float] = field(default_factory=list)

    def submit(self, request: SpeechRequest, sink: Sink) -> int:
        self.intervals_s.append(sys.getswitchinterval())
        self.is_validating.set()
        assert self.may_submit.wait(TEST_TIMEOUT_S)
        if not self.alive:
            raise EngineDead
        return super(SlowEngine, self).submit(request, sink)

    def close(self, timeout_s: float | None = None) -> None:
        self.alive = False

    def prepare(self, reference: Reference, mode: Mode, done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        self.fail_if_scripted("prepare")


@dataclass(slots=True)
class Threaded:
    """Threaded engine, the engine that it calls, and the events of each request by ticket."""

    slow: SlowEngine
    engine: ThreadedEngine
    heard: dict[int, list[SpeechEvent]] = field(default_factory=dict)

    def submit(self, text: str = REQUEST.text) -> int:
        events: list[SpeechEvent] = []
        ticket = self.engine.submit(replace(REQUEST, text=text), events.append)
        self.heard[ticket] = events
        return ticket

    def begin(self) -> int:
        """Submit a request and wait until its validation has begun."""
        ticket = self.submit()
        assert self.slow.is_validating.wait(TEST_TIMEOUT_S)
        return ticket

    def settle(self) -> None:
        """Allow all validations to end, and wait for them."""
        self.slow.may_submit.set()
        until(lambda: not self.engine._jobs)
        ticket = self.submit("x" * 10_000)
        until(lambda: self.heard[ticket] or self.engine._requests[ticket].ticket is not None)


@pytest.fixture
def threaded() -> Iterator[Threaded]:
    slow = SlowEngine(first_ticket=101)
    engine = ThreadedEngine(slow)
    engine.start()
    yield Threaded(slow, engine)
    slow.may_submit.set()
    engine.close(TEST_TIMEOUT_S)
    assert not engine._thread.is_alive()


def test_submission_and_commands_do_not_wait_for_the_validation(threaded: Threaded) -> None:
    slow, engine = threaded.slow, threaded.engine
    ticket = threaded.begin()
    engine.append(ticket, "One.")
    engine.flush(ticket)
    engine.ack_sent(ticket, 1920)
    engine.ack_played(ticket, 80.0)
    engine.finish_text(ticket)
    assert (slow.commands, slow.sinks) == ([], [])
    threaded.settle()
    engine.cancel(ticket)
    assert slow.commands == [
        ("append", 101, "One."),
        ("flush", 101),
        ("ack_sent", 101, 1920),
        ("ack_played", 101, 80.0),
        ("finish_text", 101),
        ("cancel", 101),
    ]


def test_accepted_requests_continue_during_a_validation(threaded: Threaded) -> None:
    threaded.slow.may_submit.set()
    first = threaded.submit()
    until(lambda: threaded.slow.sinks)
    threaded.slow.may_submit.clear()
    threaded.slow.is_validating.clear()
    threaded.begin()
    threaded.engine.append(first, "More.")
    threaded.slow.emit(101, started(), finished())
    assert threaded.slow.commands == [("append", 101, "More.")]
    assert threaded.heard[first] == [started(), finished()]


def test_cancelled_request_is_not_validated(threaded: Threaded) -> None:
    first, second = threaded.begin(), threaded.submit("Second.")
    threaded.engine.append(second, "More.")
    threaded.engine.cancel(second)
    threaded.engine.cancel(second)
    assert threaded.heard[second] == [CANCELLED]
    threaded.settle()
    assert "Second." not in [request.text for request in threaded.slow.requests]
    assert (threaded.heard[second], threaded.slow.commands) == ([CANCELLED], [])
    assert first in threaded.engine._requests


def test_request_cancelled_during_its_validation_is_cancelled_by_the_engine(threaded: Threaded) -> None:
    ticket = threaded.begin()
    threaded.engine.cancel(ticket)
    assert threaded.heard[ticket] == []
    threaded.settle()
    assert threaded.slow.commands == [("cancel", 101)]
    threaded.slow.emit(101, CANCELLED)
    threaded.engine.cancel(ticket)
    assert threaded.slow.commands == [("cancel", 101)]


def test_events_during_a_submission_are_passed_on_in_order(threaded: Threaded) -> None:
    events = [started(), chunk(1, 1), finished()]
    threaded.slow.script[101] = list(events)
    ticket = threaded.begin()
    threaded.engine.cancel(ticket)
    threaded.settle()
    assert threaded.heard[ticket] == events
    assert ticket not in threaded.engine._requests


@pytest.mark.logs_errors
@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (EmptyText(param="text"), EmptyText),
        (Overloaded(slots=1, waiting=0, retry_after_s=1.5), Overloaded),
        (RuntimeError("a secret"), GenerationFailed),
    ],
    ids=repr,
)
def test_refusal_is_the_only_event_of_a_refused_request(
    threaded: Threaded, refusal: Exception, error: type[SpeechError]
) -> None:
    threaded.slow.refusal = refusal
    ticket = threaded.begin()
    threaded.engine.append(ticket, "More.")
    threaded.settle()
    (event,) = threaded.heard[ticket]
    assert isinstance(event, Refused)
    assert type(event.error) is error
    assert "secret" not in str(event.error)
    threaded.engine.cancel(ticket)
    assert (threaded.slow.commands, len(threaded.heard[ticket])) == ([], 1)


def test_refusals_after_long_validation_are_delayed_and_delay_no_other_request(threaded: Threaded) -> None:
    slow, engine = threaded.slow, threaded.engine
    slow.may_submit.set()
    refused_s: list[float] = []
    began_s = time.monotonic()

    def refuse(_reference: Reference, _mode: Mode, _done: Callable[[VoicePrompt | SpeechError], None]) -> None:
        ends_s = time.thread_time() + 0.02
        while time.thread_time() < ends_s:
            pass
        raise EmptyText(param="text")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SlowEngine, "prepare", lambda _, *arguments: refuse(*arguments))
        for _ in range(3):
            engine.prepare(REFERENCE, Mode.BASE, lambda _: refused_s.append(time.monotonic() - began_s))
        until(lambda: not engine._jobs)
        ticket = threaded.submit()
        until(lambda: engine._requests[ticket].ticket is not None)
        assert len(refused_s) < 3
        until(lambda: len(refused_s) == 3)
    assert refused_s[-1] > 0.55  # Validation may use a tenth of a core, after a burst of 2 ms.


def test_short_texts_are_validated_before_long_texts(threaded: Threaded) -> None:
    threaded.begin()
    for text in ("long" * 30, "short", "longer" * 30):
        threaded.submit(text)
    threaded.settle()
    assert [request.text[:6] for request in threaded.slow.requests[1:4]] == ["short", "longlo", "longer"]


def test_long_text_is_overtaken_by_a_limited_number_of_requests(threaded: Threaded) -> None:
    threaded.begin()
    threaded.submit("long" * 10)
    for _ in range(60):
        threaded.submit("short")
    threaded.settle()
    assert 10 < [request.text for request in threaded.slow.requests].index("long" * 10) < 40


def test_other_threads_get_the_interpreter_sooner_during_a_validation(threaded: Threaded) -> None:
    usual_s = sys.getswitchinterval()
    threaded.begin()
    assert threaded.slow.intervals_s[0] < min(usual_s, 0.0002)


@pytest.mark.parametrize("is_closed", [True, False])
def test_waiting_requests_are_refused_when_the_engine_ends(threaded: Threaded, is_closed: bool) -> None:
    tickets = [threaded.begin(), threaded.submit(), threaded.submit()]
    answers: list[VoicePrompt | SpeechError] = []
    threaded.engine.prepare(REFERENCE, Mode.BASE, answers.append)
    threaded.slow.alive = False
    if is_closed:
        threading.Timer(0.01, threaded.slow.may_submit.set).start()
        threaded.engine.close(TEST_TIMEOUT_S)
        with pytest.raises(EngineDead):
            threaded.submit()
        with pytest.raises(EngineDead):
            threaded.engine.prepare(REFERENCE, Mode.BASE, answers.append)
    else:
        threaded.slow.may_submit.set()
        tickets.append(threaded.submit())
    until(lambda: answers)
    until(lambda: all(threaded.heard[ticket] for ticket in tickets))
    assert threaded.slow.requests == []
    for ticket in tickets:
        (event,) = threaded.heard[ticket]
        assert isinstance(event, Refused)
        assert isinstance(event.error, EngineDead)
    assert [type(answer) for answer in answers] == [EngineDead]


@pytest.mark.logs_errors
def test_failing_event_sink_and_failing_command_end_only_their_requests(threaded: Threaded) -> None:
    slow, engine = threaded.slow, threaded.engine

    def fail(_: SpeechEvent) -> None:
        raise RuntimeError("the listener")

    first = threaded.begin()
    slow.faults["append"] = RuntimeError("a fault")
    engine.append(first, "More.")
    engine.cancel(engine.submit(REQUEST, fail))
    threaded.settle()
    assert slow.commands == [("append", 101, "More."), ("cancel", 101)]
    slow.refusal = EmptyText(param="text")
    engine.submit(REQUEST, fail)
    threaded.settle()
    slow.refusal = None
    last = threaded.submit()
    until(lambda: engine._requests[last].ticket is not None)
    assert list(engine._requests)[:1] == [first]


@pytest.mark.logs_errors
@pytest.mark.parametrize("fault", [EmptyText(param="text"), RuntimeError("a secret")], ids=repr)
def test_preparation_error_is_passed_to_the_callback(threaded: Threaded, fault: Exception) -> None:
    answers: list[VoicePrompt | SpeechError] = []
    threaded.slow.faults["prepare"] = fault
    threaded.engine.prepare(REFERENCE, Mode.BASE, answers.append)
    until(lambda: answers)
    assert [type(answer) for answer in answers] == [type(fault) if isinstance(fault, SpeechError) else GenerationFailed]
