"""Event loops with clocks that exclude the time in which the test process is stopped.

Test machines can stop a process for seconds. The clock of every event loop in the process, including event loops of
servers, stops together with the process. Therefore no session limit, ping or timeout expires because the process was
stopped. Blocking calls without an event loop have the timeout TEST_TIMEOUT_S.
"""

from __future__ import annotations

import asyncio
import inspect
import selectors
import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

Clock = Callable[[], float]  # Function that returns seconds.
Found = TypeVar("Found")

TEST_TIMEOUT_S = 60.0  # Timeout in seconds for events that happen immediately on an idle machine.
POLL_INTERVAL_S = 0.01  # Poll interval in seconds for conditions without an event to wait for.
SLICE_S = 0.25  # Maximum seconds of one wait of a loop, so that a stop is noticed before timeouts expire.
LATE_S = 0.05  # Delay of a wait in seconds above which the process counts as stopped in the meantime.
HELD_S = 1.0  # Duration of a callback in seconds above which the process counts as stopped in the meantime.


class PatientSelector(selectors.DefaultSelector):
    """Selector that measures for how long the process was stopped while it waited.

    Each wait is divided into slices of SLICE_S seconds. `stopped_s` is the sum of the excess durations of slices.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.stopped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        wanted = SLICE_S if timeout is None else min(max(0.0, timeout), SLICE_S)
        began = self._clock()
        events = super().select(wanted)
        self.stopped_s += max(0.0, self._clock() - began - wanted - LATE_S)
        return events


class PatientLoop(asyncio.SelectorEventLoop):
    """Event loop whose clock counts at most `SLICE_S` seconds while the process is stopped."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._selecting = PatientSelector(clock)
        self._held_s = 0.0  # Total time by which callbacks were longer than HELD_S.
        self._looked = clock()
        self._stopped_before = 0.0
        super().__init__(self._selecting)

    def time(self) -> float:
        now, stopped_s = self._clock(), self._selecting.stopped_s
        # Time since the last call, without the time of stops that the selector has measured.
        passed_s = now - self._looked - (stopped_s - self._stopped_before)
        self._held_s += max(0.0, passed_s - SLICE_S - HELD_S)
        self._looked, self._stopped_before = now, stopped_s
        return now - stopped_s - self._held_s


class PatientLoopPolicy(asyncio.DefaultEventLoopPolicy):
    """Event loop policy that makes asyncio.run use the event loop class `PatientLoop`."""

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return PatientLoop()


def exclude_stopped_time() -> None:
    """Exclude the time in which the process is stopped from all timeouts.

    All new event loops become a `PatientLoop`, and httpx's default timeout becomes TEST_TIMEOUT_S.
    """
    asyncio.set_event_loop_policy(PatientLoopPolicy())
    # All functions and clients of httpx share this default object (5 s).
    default: Any = inspect.signature(httpx.get).parameters["timeout"].default
    default.connect = default.read = default.write = default.pool = TEST_TIMEOUT_S


def until(holds: Callable[[], Found], within_s: float = TEST_TIMEOUT_S) -> Found:
    """Call `holds` repeatedly until its result is true, and return that result.

    The timeout is a number of polls, so a slow machine gets more time.

    Raises:
        AssertionError: The result is still false after ``within_s``.
    """
    for _ in range(round(within_s / POLL_INTERVAL_S)):
        if found := holds():
            return found
        time.sleep(POLL_INTERVAL_S)
    raise AssertionError(f"not within {within_s:.0f} s")


async def becomes(holds: Callable[[], Found]) -> Found:
    """Call `holds` repeatedly in a coroutine until its result is true, and return that result.

    Raises:
        AssertionError: The result is still false after `TEST_TIMEOUT_S`.
    """
    for _ in range(round(TEST_TIMEOUT_S / POLL_INTERVAL_S)):
        if found := holds():
            return found
        await asyncio.sleep(POLL_INTERVAL_S)
    raise AssertionError(f"not within {TEST_TIMEOUT_S:.0f} s")
