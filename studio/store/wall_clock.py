"""Check of the wall clock before anything is deleted for its age."""

from __future__ import annotations

import time
from collections.abc import Callable

JUMP_S = 60.0  # Difference from elapsed time that counts as a jump.


def _date() -> float:
    return time.time()


class WallClock:
    """Wall clock that protects records from expiry while the machine's clock is wrong.

    A clock that has jumped is believed again once it has gone evenly from one look to the next.
    """

    def __init__(self, wall: Callable[[], float] = _date, passed: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._passed = passed
        self._apart = wall() - passed()  # Seconds.

    def jumped_s(self) -> float:
        """Seconds that it went further than time did since the last look; 0.0: no more than ``JUMP_S``."""
        before, self._apart = self._apart, self._wall() - self._passed()
        jump = self._apart - before
        return jump if abs(jump) > JUMP_S else 0.0
