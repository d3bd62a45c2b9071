"""Who waits for the device wakes the engine at every moment, in order, and whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from runtime.device.interface import Track
from runtime.engine.watcher import Watcher

WAIT_S = 10


class Gate:
    """A moment that comes when the test says so."""

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
def watcher(woken: threading.Semaphore) -> Iterator[Watcher]:
    watcher = Watcher(woken.release)
    watcher.start((Track.FRAMES, Track.STARTS))
    yield watcher
    watcher.close()


def test_each_moment_wakes_once_it_has_come(watcher: Watcher, woken: threading.Semaphore) -> None:
    first, second = Gate(), Gate()
    for gate in (first, second):
        watcher.expect(Track.FRAMES, gate)
    assert not woken.acquire(timeout=0.05)
    first.come.set()
    assert woken.acquire(timeout=WAIT_S)
    assert not woken.acquire(timeout=0.05)
    second.come.set()
    assert woken.acquire(timeout=WAIT_S)


def test_a_track_does_not_wait_for_another(watcher: Watcher, woken: threading.Semaphore) -> None:
    frame, start = Gate(), Gate()
    watcher.expect(Track.FRAMES, frame)
    watcher.expect(Track.STARTS, start)
    start.come.set()
    assert woken.acquire(timeout=WAIT_S)
    frame.come.set()
    assert woken.acquire(timeout=WAIT_S)


@pytest.mark.logs_errors
def test_a_moment_that_fails_wakes_too_and_those_after_it_are_waited_for(
    watcher: Watcher, woken: threading.Semaphore
) -> None:
    broken, after = Gate(fails=True), Gate()
    for gate in (broken, after):
        gate.come.set()
        watcher.expect(Track.FRAMES, gate)
    assert woken.acquire(timeout=WAIT_S)
    assert woken.acquire(timeout=WAIT_S)


def test_a_watcher_that_was_not_started_expects_nothing() -> None:
    watcher = Watcher(lambda: None)
    assert not watcher.is_running
    watcher.expect(Track.FRAMES, Gate())
    watcher.close()
