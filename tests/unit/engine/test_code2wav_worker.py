"""Tests for the Code2Wav worker: order of tasks, withdrawn tasks and failing tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from runtime.engine.audio.code2wav_worker import Code2WavTask, Code2WavWorker

WAIT_S = 60


@pytest.fixture
def worker() -> Iterator[Code2WavWorker]:
    worker = Code2WavWorker()
    worker.start()
    yield worker
    worker.close()


def task(
    log: list[str], name: str, urgency: tuple[bool, float] = (True, 0.0), gate: threading.Event | None = None
) -> Code2WavTask:
    def run() -> None:
        if gate is not None:
            assert gate.wait(WAIT_S)
        log.append(name)

    def begin() -> Callable[[], None]:
        log.append(f"begin {name}")
        return run

    return Code2WavTask(urgency, begin)


def test_tasks_run_immediately_by_urgency_without_a_worker_thread() -> None:
    worker, log = Code2WavWorker(), []
    worker.replace_tasks("a", lambda: [task(log, "one"), task(log, "two")])
    assert log == ["begin one", "one", "begin two", "two"]


def test_most_urgent_task_of_all_owners_runs_first(worker: Code2WavWorker) -> None:
    log: list[str] = []
    gate, done = threading.Event(), threading.Event()
    worker.replace_tasks("a", lambda: [task(log, "running", gate=gate)])
    while "begin running" not in log:
        pass
    worker.replace_tasks("a", lambda: [task(log, "late", (True, 9.0)), Code2WavTask((True, 10.0), lambda: done.set)])
    worker.replace_tasks("b", lambda: [task(log, "first", (False, 5.0)), task(log, "soon", (True, 2.0))])
    gate.set()
    assert done.wait(WAIT_S)
    assert [name for name in log if not name.startswith("begin")] == ["running", "first", "soon", "late"]


def test_replace_tasks_keeps_the_running_task(worker: Code2WavWorker) -> None:
    log: list[str] = []
    gate, done = threading.Event(), threading.Event()
    worker.replace_tasks("a", lambda: [task(log, "running", gate=gate), task(log, "stale")])
    while "begin running" not in log:
        pass
    worker.replace_tasks("a", lambda: [Code2WavTask((True, 0.0), lambda: done.set)])
    gate.set()
    assert done.wait(WAIT_S)
    assert "stale" not in log
    assert "running" in log


def test_withdrawn_task_does_not_run(worker: Code2WavWorker) -> None:
    log: list[str] = []
    gate, done = threading.Event(), threading.Event()
    worker.replace_tasks("a", lambda: [task(log, "running", gate=gate), task(log, "withdrawn")])
    while "begin running" not in log:
        pass
    worker.withdraw("a")
    worker.replace_tasks("b", lambda: [Code2WavTask((True, 0.0), lambda: done.set)])
    gate.set()
    assert done.wait(WAIT_S)
    assert "begin withdrawn" not in log


@pytest.mark.logs_errors
def test_failing_task_does_not_stop_the_worker(worker: Code2WavWorker) -> None:
    done = threading.Event()

    def fail() -> None:
        raise RuntimeError("a bug")

    worker.replace_tasks(
        "a", lambda: [Code2WavTask((True, 0.0), lambda: fail), Code2WavTask((True, 1.0), lambda: done.set)]
    )
    assert done.wait(WAIT_S)


def test_close_drops_waiting_tasks_and_ends_the_thread() -> None:
    worker, log = Code2WavWorker(), []
    gate = threading.Event()
    worker.start()
    worker.replace_tasks("a", lambda: [task(log, "running", gate=gate), task(log, "dropped")])
    while "begin running" not in log:
        pass
    closing = threading.Thread(target=worker.close)
    closing.start()
    gate.set()
    closing.join(WAIT_S)
    assert not closing.is_alive()
    assert "begin dropped" not in log


@pytest.fixture
def two_threads() -> Iterator[Code2WavWorker]:
    worker = Code2WavWorker()
    worker.start(separate_urgent=True)
    yield worker
    worker.close()


def test_first_chunk_does_not_wait_for_a_running_chunk(two_threads: Code2WavWorker) -> None:
    log: list[str] = []
    gate, first, later = threading.Event(), threading.Event(), threading.Event()
    two_threads.replace_tasks("a", lambda: [task(log, "running", gate=gate)])
    while "begin running" not in log:
        pass
    two_threads.replace_tasks(
        "b", lambda: [Code2WavTask((False, 0.0), lambda: first.set), Code2WavTask((True, 0.0), lambda: later.set)]
    )
    assert first.wait(WAIT_S)
    assert not later.is_set()
    gate.set()
    assert later.wait(WAIT_S)


def test_first_chunk_thread_runs_no_other_tasks(two_threads: Code2WavWorker) -> None:
    log: list[str] = []
    gate, done = threading.Event(), threading.Event()
    two_threads.replace_tasks("a", lambda: [task(log, "first", (False, 0.0), gate), task(log, "second", (False, 1.0))])
    while "begin first" not in log:
        pass
    two_threads.replace_tasks("b", lambda: [Code2WavTask((True, 0.0), lambda: done.set)])
    assert done.wait(WAIT_S)
    assert "begin second" not in log
    gate.set()
