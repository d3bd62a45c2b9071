"""Says since when a thread has been at the step that it is at. Written by that thread, read by any."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pulse:
    """A step ends with the next one, or with rest. ``since`` is by the clock, in seconds; None: the thread rests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.since: float | None = None

    def step(self) -> None:
        self.since = self._clock()

    def rest(self) -> None:
        self.since = None
