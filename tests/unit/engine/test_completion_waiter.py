"""Tests for the completion waiter, which wakes the engine after each device event."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from runtime.device.interface import Stream
from runtime.engine.execution.completion_waiter import CompletionWaiter

WAIT_S = 60


class Gate:
    """Fake device event whose completion the test triggers."""

    def __init__(self, *, fails: bool = False) -> None:
        self.come, self.fails = threading.Event(), fails

    def query(self) -> bool:
        return self.come.is_set()

    def synchronize(self) -> None:
        assert self.come.wait(WAIT_S)
        if self.fails:
            raise RuntimeError("the device is gone")


@pytest.fixture
def woken() -> threading.Semaphore:
    return threading.Semaphore(0)


@pytest.fixture
def completion_waiter(woken: threading.Semaphore) -> Iterator[CompletionWaiter]:
    completion_waiter = CompletionWaiter(woken.release)
    completion_waiter.start((Stream.FRAMES, Stream.PROMPTS))
    yield completion_waiter
    completion_waiter.close()


def test_each_completed_event_wakes_the_engine_once(
    completion_waiter: CompletionWaiter, woken: threading.Semaphore
) -> None:
    first, second = Gate(), Gate()
    for gate in (first, second):
        completion_waiter.expect(Stream.FRAMES, gate)
    assert not woken.acquire(timeout=0.05)
    first.come.set()
    assert woken.acquire(timeout=WAIT_S)
    assert not woken.acquire(timeout=0.05)
    second.come.set()
    assert woken.acquire(timeout=WAIT_S)


def test_streams_do_not_wait_for_each_other(completion_waiter: CompletionWaiter, woken: threading.Semaphore) -> None:
    frame, start = Gate(), Gate()
    completion_waiter.expect(Stream.FRAMES, frame)
    completion_waiter.expect(Stream.PROMPTS, start)
    start.come.set()
    assert woken.acquire(timeout=WAIT_S)
    frame.come.set()
    assert woken.acquire(timeout=WAIT_S)


@pytest.mark.logs_errors
def test_failed_event_wakes_the_engine_and_later_events_are_awaited(
    completion_waiter: CompletionWaiter, woken: threading.Semaphore
) -> None:
    broken, after = Gate(fails=True), Gate()
    for gate in (broken, after):
        gate.come.set()
        completion_waiter.expect(Stream.FRAMES, gate)
    assert woken.acquire(timeout=WAIT_S)
    assert woken.acquire(timeout=WAIT_S)


def test_waiter_that_was_not_started_ignores_events() -> None:
    completion_waiter = CompletionWaiter(lambda: None)
    assert not completion_waiter.is_running
    completion_waiter.expect(Stream.FRAMES, Gate())
    completion_waiter.close()
