"""The lane beside the frames: most urgent first, nothing withdrawn is begun, a failure ends nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from runtime.engine.lane import SoundLane, Work

WAIT_S = 10


@pytest.fixture
def lane() -> Iterator[SoundLane]:
    lane = SoundLane()
    lane.start()
    yield lane
    lane.close()


def work(
    log: list[str], name: str, urgency: tuple[bool, float] = (True, 0.0), gate: threading.Event | None = None
) -> Work:
    def run() -> None:
        if gate is not None:
            assert gate.wait(WAIT_S)
        log.append(name)

    def begin() -> Callable[[], None]:
        log.append(f"begin {name}")
        return run

    return Work(urgency, begin)


def test_without_a_thread_work_is_done_at_once_in_order_of_urgency() -> None:
    lane, log = SoundLane(), []
    lane.offer("a", lambda: [work(log, "one"), work(log, "two")])
    assert log == ["begin one", "one", "begin two", "two"]


def test_the_most_urgent_of_all_owners_goes_first(lane: SoundLane) -> None:
    log: list[str] = []
    gate, done = threading.Event(), threading.Event()
    lane.offer("a", lambda: [work(log, "running", gate=gate)])
    while "begin running" not in log:
        pass
    lane.offer("a", lambda: [work(log, "late", (True, 9.0)), Work((True, 10.0), lambda: done.set)])
    lane.offer("b", lambda: [work(log, "first", (False, 5.0)), work(log, "soon", (True, 2.0))])
    gate.set()
    assert done.wait(WAIT_S)
    assert [name for name in log if not name.startswith("begin")] == ["running", "first", "soon", "late"]


def test_an_offer_replaces_what_waits_and_not_what_runs(lane: SoundLane) -> None:
    log: list[str] = []
    gate, done = threading.Event(), threading.Event()
    lane.offer("a", lambda: [work(log, "running", gate=gate), work(log, "stale")])
    while "begin running" not in log:
        pass
    lane.offer("a", lambda: [Work((True, 0.0), lambda: done.set)])
    gate.set()
    assert done.wait(WAIT_S)
    assert "stale" not in log
    assert "running" in log


def test_withdrawn_work_is_never_begun(lane: SoundLane) -> None:
    log: list[str] = []
    gate, done = threading.Event(), threading.Event()
    lane.offer("a", lambda: [work(log, "running", gate=gate), work(log, "withdrawn")])
    while "begin running" not in log:
        pass
    lane.withdraw("a")
    lane.offer("b", lambda: [Work((True, 0.0), lambda: done.set)])
    gate.set()
    assert done.wait(WAIT_S)
    assert "begin withdrawn" not in log


@pytest.mark.logs_errors
def test_work_that_raises_ends_nothing_else(lane: SoundLane) -> None:
    done = threading.Event()

    def fail() -> None:
        raise RuntimeError("a bug")

    lane.offer("a", lambda: [Work((True, 0.0), lambda: fail), Work((True, 1.0), lambda: done.set)])
    assert done.wait(WAIT_S)


def test_closing_drops_what_waits_and_ends_the_thread() -> None:
    lane, log = SoundLane(), []
    gate = threading.Event()
    lane.start()
    lane.offer("a", lambda: [work(log, "running", gate=gate), work(log, "dropped")])
    while "begin running" not in log:
        pass
    closing = threading.Thread(target=lane.close)
    closing.start()
    gate.set()
    closing.join(WAIT_S)
    assert not closing.is_alive()
    assert "begin dropped" not in log


@pytest.fixture
def two_lines() -> Iterator[SoundLane]:
    lane = SoundLane()
    lane.start(first_apart=True)
    yield lane
    lane.close()


def test_a_first_chunk_does_not_wait_for_a_chunk_that_is_being_made(two_lines: SoundLane) -> None:
    log: list[str] = []
    gate, first, later = threading.Event(), threading.Event(), threading.Event()
    two_lines.offer("a", lambda: [work(log, "running", gate=gate)])
    while "begin running" not in log:
        pass
    two_lines.offer("b", lambda: [Work((False, 0.0), lambda: first.set), Work((True, 0.0), lambda: later.set)])
    assert first.wait(WAIT_S)
    assert not later.is_set()
    gate.set()
    assert later.wait(WAIT_S)


def test_the_line_of_first_chunks_takes_nothing_else(two_lines: SoundLane) -> None:
    log: list[str] = []
    gate, done = threading.Event(), threading.Event()
    two_lines.offer("a", lambda: [work(log, "first", (False, 0.0), gate), work(log, "second", (False, 1.0))])
    while "begin first" not in log:
        pass
    two_lines.offer("b", lambda: [Work((True, 0.0), lambda: done.set)])
    assert done.wait(WAIT_S)
    assert "begin second" not in log
    gate.set()
