"""Times work on this processor: the fastest of some runs, the middle one, and with how many threads.

The fastest of some runs in several rounds counts, which is what the processor does when nothing else is at work, and of
one thread its processor's time, in which nobody else has a share. The middle run by the clock says what the machine
does now.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

ROUNDS = 3  # of a measurement, behind a run to warm up
MEASURE_S = 0.05  # that each goes on for


class Run(NamedTuple):
    """Seconds by the clock, and of the asking thread's processor."""

    clock: float
    processor: float


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of the fastest of some runs, and of the middle one by the clock."""

    best: float
    middle: float

    @classmethod
    def of(cls, runs: Sequence[Run], *, by_processor: bool) -> Timing:
        fastest = min(run.processor if by_processor else run.clock for run in runs)
        return cls(fastest, max(fastest, statistics.median(run.clock for run in runs)))

    def times(self, count: float) -> Timing:
        return Timing(self.best * count, self.middle * count)


def timing(work: Callable[[], Tensor]) -> Timing:
    """How long some runs take on a processor, behind one to warm up, with the CPU threads of the asking thread."""
    return Timing.of(_measured(work), by_processor=counts_processor_time())


def best(work: Callable[[], Tensor]) -> float:
    """Seconds of the fastest run by the clock; ``item`` waits until a card has done it."""
    return min(run.clock for run in _measured(work))


def _measured(work: Callable[[], Tensor]) -> list[Run]:
    work().item()
    return [run for _ in range(ROUNDS) for run in one_round(work)]


def one_round(work: Callable[[], Tensor]) -> list[Run]:
    """The runs of one round."""
    runs: list[Run] = []
    ends = time.perf_counter() + MEASURE_S
    while not runs or time.perf_counter() < ends:
        clock, processor = time.perf_counter(), time.thread_time()
        work().item()
        runs.append(Run(time.perf_counter() - clock, time.thread_time() - processor))
    return runs


def counts_processor_time() -> bool:
    """Whether the time of the asking thread's processor is all that its work takes, and finely told."""
    return torch.get_num_threads() == 1 and sys.platform != "win32"


@contextmanager
def computing_with(threads: int) -> Iterator[None]:
    """Compute with so many CPU threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def repeating(work: Callable[[], Tensor], threads: int) -> Iterator[None]:
    """Do it over and over meanwhile, on a thread of its own with so many CPU threads."""
    done, begun = threading.Event(), threading.Event()

    @torch.inference_mode()
    def run() -> None:
        torch.set_num_threads(threads)  # each thread's own
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
