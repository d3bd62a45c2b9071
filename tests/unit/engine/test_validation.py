"""Tests for requests and commands during the validation on a separate thread."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from runtime.engine.engine import Engine
from runtime.engine.validation_thread import ValidationThread
from runtime.errors import EmptyText, EngineDead, GenerationFailed, SpeechError, UnknownVoice
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Finished, Refused, SpeechEvent, StopReason
from tests.support.engines import EventRecorder, custom_voice, engine_of, speak, streamed
from tests.support.timeouts import TEST_TIMEOUT_S, until


@dataclass(slots=True)
class Jobs:
    """Validation thread whose first job blocks it until the test sets `may_run`."""

    thread: ValidationThread = field(default_factory=ValidationThread)
    may_run: threading.Event = field(default_factory=threading.Event)
    done: list[str] = field(default_factory=list)
    errors: list[SpeechError] = field(default_factory=list)
    intervals_s: list[float] = field(default_factory=list)

    def block(self) -> None:
        """Add a job that blocks the thread, and wait until it runs."""
        is_running = threading.Event()

        def wait() -> None:
            self.intervals_s.append(sys.getswitchinterval())
            is_running.set()
            assert self.may_run.wait(TEST_TIMEOUT_S)

        self.thread.add_job(0, wait, self.errors.append)
        assert is_running.wait(TEST_TIMEOUT_S)

    def add(self, name: str, chars: int = 1) -> None:
        self.thread.add_job(chars, lambda: self.done.append(name), self.errors.append)

    def fail(self, error: Exception, cpu_s: float = 0.0) -> None:
        """Add a job that uses CPU time and then fails."""

        def work() -> None:
            ends_s = time.thread_time() + cpu_s
            while time.thread_time() < ends_s:
                pass
            raise error

        self.thread.add_job(1, work, self.errors.append)


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    jobs = Jobs()
    jobs.thread.start()
    yield jobs
    jobs.may_run.set()
    jobs.thread.close(TEST_TIMEOUT_S)
    assert not jobs.thread._thread.is_alive()


# --- Tests of the thread.


def test_short_texts_are_validated_before_long_texts(jobs: Jobs) -> None:
    jobs.block()
    for name, chars in (("long", 120), ("short", 5), ("longer", 180)):
        jobs.add(name, chars)
    jobs.may_run.set()
    until(lambda: len(jobs.done) == 3)
    assert jobs.done == ["short", "long", "longer"]


def test_long_text_is_overtaken_by_a_limited_number_of_requests(jobs: Jobs) -> None:
    jobs.block()
    jobs.add("long", 40)
    for _ in range(60):
        jobs.add("short", 5)
    jobs.may_run.set()
    until(lambda: len(jobs.done) == 61)
    assert 10 < jobs.done.index("long") < 40


def test_refusals_after_long_validation_are_delayed_and_delay_no_other_request(jobs: Jobs) -> None:
    began_s = time.monotonic()
    for _ in range(3):
        jobs.fail(EmptyText(param="text"), cpu_s=0.02)
    jobs.add("valid")
    until(lambda: jobs.done)
    assert len(jobs.errors) < 3
    until(lambda: len(jobs.errors) == 3)
    assert time.monotonic() - began_s > 0.55  # Validation may use a tenth of a core, after a burst of 2 ms.


def test_other_threads_get_the_interpreter_sooner_during_a_validation(jobs: Jobs) -> None:
    usual_s = sys.getswitchinterval()
    jobs.block()
    assert jobs.intervals_s[0] < min(usual_s, 0.0002)


@pytest.mark.logs_errors
def test_internal_error_is_reported_without_its_message(jobs: Jobs) -> None:
    jobs.fail(RuntimeError("a secret"))
    until(lambda: jobs.errors)
    assert [type(error) for error in jobs.errors] == [GenerationFailed]
    assert "secret" not in str(jobs.errors[0])


def test_waiting_and_later_jobs_are_refused_after_close(jobs: Jobs) -> None:
    jobs.block()
    jobs.add("waiting")
    threading.Timer(0.01, jobs.may_run.set).start()
    jobs.thread.close(TEST_TIMEOUT_S)
    jobs.add("late")
    assert [type(error) for error in jobs.errors] == [EngineDead, EngineDead]
    assert jobs.done == []


def test_job_that_is_added_directly_before_close_is_refused(jobs: Jobs) -> None:
    """The thread has looked for a job before, because it sends the refusal of another job."""

    def fail() -> None:
        raise EmptyText(param="text")

    def refuse(error: SpeechError) -> None:
        jobs.errors.append(error)
        jobs.add("late")
        threading.Thread(target=jobs.thread.close, args=(TEST_TIMEOUT_S,)).start()
        until(lambda: jobs.thread._is_closing)

    jobs.thread.add_job(1, fail, refuse)
    until(lambda: len(jobs.errors) == 2)
    assert [type(error) for error in jobs.errors] == [EmptyText, EngineDead]


# --- Tests of an engine whose validation is slow.


@dataclass(slots=True)
class Slow:
    """Started engine whose validations block until the test sets `may_admit`."""

    engine: Engine
    is_validating: threading.Event = field(default_factory=threading.Event)
    may_admit: threading.Event = field(default_factory=threading.Event)
    texts: list[str] = field(default_factory=list)

    def begin(self, **kwargs: Any) -> tuple[int, EventRecorder]:
        """Submit a streamed request and wait until its validation has begun."""
        recorder = EventRecorder()
        ticket = self.engine.submit(streamed("Hel", open_text=True, max_frames=8, **kwargs), recorder)
        assert self.is_validating.wait(TEST_TIMEOUT_S)
        return ticket, recorder


@pytest.fixture
def slow(quick: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    slow = Slow(engine_of(quick))
    core = slow.engine.registry.cores[0]
    validate = core.validate_request

    def validate_slowly(request: Any) -> Any:
        slow.texts.append(request.text)
        slow.is_validating.set()
        assert slow.may_admit.wait(TEST_TIMEOUT_S)
        return validate(request)

    monkeypatch.setattr(core, "validate_request", validate_slowly)
    slow.engine.start()
    yield slow
    slow.may_admit.set()
    slow.engine.close(TEST_TIMEOUT_S)


def test_commands_during_the_validation_keep_their_order(slow: Slow, quick: Checkpoint) -> None:
    ticket, recorder = slow.begin()
    for piece in ("lo wor", "ld, you", " speak."):
        slow.engine.append_text(ticket, piece)
    slow.engine.flush(ticket)
    slow.engine.ack_played(ticket, 80.0)
    slow.engine.finish_text(ticket)
    assert not recorder.events
    slow.may_admit.set()
    until(lambda: recorder.ended)
    expected = speak(engine_of(quick), streamed("Hello world, you speak.", max_frames=8))
    assert np.array_equal(recorder.codes, expected.codes)


def test_accepted_request_continues_during_the_validation_of_another(slow: Slow) -> None:
    slow.may_admit.set()
    ticket, first = slow.begin()
    until(lambda: ticket not in slow.engine._submissions)
    slow.may_admit.clear()
    slow.is_validating.clear()
    _, second = slow.begin()
    slow.engine.append_text(ticket, "lo world.")
    slow.engine.finish_text(ticket)
    until(lambda: first.ended)
    assert not second.events


def test_request_cancelled_before_its_validation_is_not_validated(slow: Slow) -> None:
    slow.begin()
    recorder = EventRecorder()
    ticket = slow.engine.submit(custom_voice("Second."), recorder)
    slow.engine.append_text(ticket, "More.")
    slow.engine.cancel(ticket)
    slow.engine.cancel(ticket)
    assert [type(event) for event in recorder.events] == [Finished]
    assert recorder.end.stop_reason is StopReason.CANCELLED
    slow.may_admit.set()
    until(lambda: not slow.engine._validation._jobs)
    assert slow.texts == ["Hel"]
    assert len(recorder.events) == 1


def test_request_cancelled_during_its_validation_never_gets_a_slot(slow: Slow) -> None:
    ticket, recorder = slow.begin()
    slow.engine.cancel(ticket)
    assert not recorder.events
    slow.may_admit.set()
    until(lambda: recorder.ended)
    assert [type(event) for event in recorder.events] == [Finished]
    assert recorder.end.stop_reason is StopReason.CANCELLED
    assert not slow.engine._submissions


def test_refusal_is_the_only_event_of_a_request(slow: Slow) -> None:
    ticket, recorder = slow.begin(voice="nobody")
    slow.engine.append_text(ticket, "More.")
    slow.may_admit.set()
    until(lambda: recorder.events)
    slow.engine.cancel(ticket)
    (event,) = recorder.events
    assert isinstance(event, Refused)
    assert isinstance(event.error, UnknownVoice)
    assert not slow.engine._submissions


def test_requests_in_validation_are_refused_when_the_engine_closes(slow: Slow) -> None:
    (_, first), second, late = slow.begin(), EventRecorder(), EventRecorder()
    slow.engine.submit(custom_voice(), second)
    threading.Timer(0.01, slow.may_admit.set).start()
    slow.engine.close(TEST_TIMEOUT_S)
    slow.engine.submit(custom_voice(), late)
    for recorder in (first, second, late):
        (event,) = recorder.events
        assert isinstance(event, Refused)
        assert isinstance(event.error, EngineDead)


@pytest.mark.logs_errors
def test_failing_sink_ends_only_its_own_request(slow: Slow) -> None:
    def fail(_: SpeechEvent) -> None:
        raise RuntimeError("the listener")

    slow.may_admit.set()
    slow.engine.submit(custom_voice(voice="nobody"), fail)
    slow.engine.submit(custom_voice(), fail)
    recorder = EventRecorder()
    slow.engine.submit(custom_voice(), recorder)
    until(lambda: recorder.ended)
    until(lambda: not slow.engine._open.foreground_count)
    assert not slow.engine._submissions
