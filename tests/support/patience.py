"""Time that a test process is kept from running does not count: machines that test stand still for seconds at times.

Every event loop of the process, the tests' and those of servers in it, has a clock that stands still while the process
does, so that no limit of a session, no ping and no timeout is over because of it. What blocks without a loop is given
PATIENCE_S.
"""

from __future__ import annotations

import asyncio
import inspect
import selectors
import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

Clock = Callable[[], float]  # seconds
Found = TypeVar("Found")

PATIENCE_S = 60.0  # for what must come, and comes at once where nothing stands still
LOOK_S = 0.01  # between two looks at something that cannot be waited for
SLICE_S = 0.25  # what a loop waits for at once, at most: what came in a stop is seen before its time is over
LATE_S = 0.05  # by so much a wait may be longer than it was meant to be
HELD_S = 1.0  # what a callback of ours may take


class PatientSelector(selectors.DefaultSelector):
    """Waits in slices, and adds up by how much they were longer than they could be."""

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
    """The platform's loop with a clock that a stop of the process costs no more than a slice."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._selecting = PatientSelector(clock)
        self._held_s = 0.0  # what callbacks took beyond HELD_S each
        self._looked = clock()
        self._stopped_before = 0.0
        super().__init__(self._selecting)

    def time(self) -> float:
        now, stopped_s = self._clock(), self._selecting.stopped_s
        # What has passed since the last look, without the stop that the selector has seen in it.
        passed_s = now - self._looked - (stopped_s - self._stopped_before)
        self._held_s += max(0.0, passed_s - SLICE_S - HELD_S)
        self._looked, self._stopped_before = now, stopped_s
        return now - stopped_s - self._held_s


class PatientLoops(asyncio.DefaultEventLoopPolicy):
    """What asyncio.run takes its loops from."""

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return PatientLoop()


def be_patient() -> None:
    """Give every loop of the process such a clock, and every client of HTTP without a timeout of its own PATIENCE_S."""
    asyncio.set_event_loop_policy(PatientLoops())
    # One object, which is the default of httpx's functions and clients alike: 5 s.
    default: Any = inspect.signature(httpx.get).parameters["timeout"].default
    default.connect = default.read = default.write = default.pool = PATIENCE_S


def until(holds: Callable[[], Found], within_s: float = PATIENCE_S) -> Found:
    """Look until something true is there, and return it. Time is counted in looks.

    Raises:
        AssertionError: it is not after ``within_s`` of looking.
    """
    for _ in range(round(within_s / LOOK_S)):
        if found := holds():
            return found
        time.sleep(LOOK_S)
    raise AssertionError(f"not within {within_s:.0f} s")


async def becomes(holds: Callable[[], Found], within_s: float = PATIENCE_S) -> Found:
    """As `until`, where a loop runs.

    Raises:
        AssertionError: it is not after ``within_s`` of looking.
    """
    for _ in range(round(within_s / LOOK_S)):
        if found := holds():
            return found
        await asyncio.sleep(LOOK_S)
    raise AssertionError(f"not within {within_s:.0f} s")
