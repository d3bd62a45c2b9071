"""Time measurement of functions on this CPU, with a given number of threads.

The fastest run shows the CPU's speed without other load. With one thread, it is measured in CPU time, which excludes
other processes.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

TIMED_ROUNDS = 3
ROUND_S = 0.05  # Minimum duration of a round in seconds.


class Run(NamedTuple):
    """Wall-clock time and CPU time of one run in seconds."""

    clock: float
    processor: float


def fastest(runs: Sequence[Run]) -> float:
    """Return the duration of the fastest run in seconds."""
    # CPU time is not used on Windows, where its resolution is only 16 ms.
    by_processor = torch.get_num_threads() == 1 and sys.platform != "win32"
    return min(run.processor if by_processor else run.clock for run in runs)


def measure_round(work: Callable[[], Tensor]) -> list[Run]:
    """Call `work` repeatedly for at least `ROUND_S` seconds, and return the time of each call.

    Each call includes a call of `item` on the result, which waits for a GPU.
    """
    runs: list[Run] = []
    end = time.perf_counter() + ROUND_S
    while not runs or time.perf_counter() < end:
        clock, processor = time.perf_counter(), time.thread_time()
        work().item()
        runs.append(Run(time.perf_counter() - clock, time.thread_time() - processor))
    return runs


def measure_runs(work: Callable[[], Tensor]) -> list[Run]:
    """Call `work` repeatedly in `TIMED_ROUNDS` rounds, and return the time of each call.

    A warm-up call before the rounds is not measured.
    """
    work().item()
    return [run for _ in range(TIMED_ROUNDS) for run in measure_round(work)]


@contextmanager
def cpu_threads(count: int) -> Iterator[None]:
    """Set torch's number of CPU threads for the current thread while the context is active."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def repeat_in_background(work: Callable[[], Tensor], threads: int) -> Iterator[None]:
    """Repeat ``work`` on another thread with ``threads`` CPU threads."""
    done, begun = threading.Event(), threading.Event()

    @torch.inference_mode()
    def run() -> None:
        torch.set_num_threads(threads)  # Torch's number of threads is set per thread.
        try:
            while not done.is_set():
                work()
                begun.set()
        finally:
            begun.set()

    thread = threading.Thread(target=run, name="probe")
    thread.start()
    try:
        begun.wait()
        yield
    finally:
        done.set()
        thread.join()
