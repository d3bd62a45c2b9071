"""Heartbeat of a thread, by which other threads detect that the thread has stalled."""

from __future__ import annotations

import time
from collections.abc import Callable


class Heartbeat:
    """Start time of a thread's current step, which other threads may read.

    `since` is the start time in seconds, or None while the thread is idle.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.since: float | None = None

    def step(self) -> None:
        self.since = self._clock()

    def mark_idle(self) -> None:
        self.since = None
