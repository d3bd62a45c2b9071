"""Heartbeat of a thread: the start time of its current step.

The thread writes it, and any thread may read it.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Heartbeat:
    """Start time of a thread's current step.

    `since` is in seconds of the clock, None while the thread is idle.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.since: float | None = None

    def step(self) -> None:
        self.since = self._clock()

    def rest(self) -> None:
        self.since = None
