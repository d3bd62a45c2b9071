"""Sharing of the interpreter: switch interval, garbage collection and CPU time."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

SWITCH_INTERVAL_S = 0.0005  # Seconds after which a thread must release the GIL if another thread waits for it.
YIELDING_INTERVAL_S = 50e-6  # Value of the same interval while a background thread does long work.

_lock = threading.Lock()
_usual_intervals_s: list[float] = []  # Original interval in seconds, once for each thread that is inside `yielding`.


def switch_often() -> None:
    """Make threads release the GIL after ``SWITCH_INTERVAL_S`` if another thread waits for it.

    The engine's thread has to wait for the GIL when it wakes up. Python's default of 5 ms is longer than the generation
    of a frame. The event loop would also wait 5 ms several times per request while another thread computes.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)


@contextmanager
def yielding() -> Iterator[None]:
    """Make threads release the GIL after `YIELDING_INTERVAL_S` while the context is active.

    A longer interval would delay the engine, which needs the GIL hundreds of times per frame. Several threads may use
    this context manager at the same time.
    """
    with _lock:
        _usual_intervals_s.append(_usual_intervals_s[0] if _usual_intervals_s else sys.getswitchinterval())
        sys.setswitchinterval(YIELDING_INTERVAL_S)
    try:
        yield
    finally:
        with _lock:
            usual_s = _usual_intervals_s.pop()
            if not _usual_intervals_s:
                sys.setswitchinterval(usual_s)


def pause_collection() -> None:
    """Pause garbage collection until `settle`.

    Almost no object of the start is garbage, and repeated scans of all objects take a sixth of the time of the imports.
    """
    gc.disable()


def settle() -> None:
    """Exclude all existing objects from garbage collection.

    Scanning these objects would delay frames. Garbage collection is resumed if it was paused.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


@dataclass(slots=True)
class TimeShare:
    """Leaky bucket that limits the fraction of time in use.

    Args:
        share: Fraction of the time that may be used, from 0 to 1.
        burst_s: Seconds that may be used without a pause.
        max_pause_s: Maximum pause in seconds.
    """

    share: float
    burst_s: float
    max_pause_s: float
    _debt_s: float = 0.0
    _charged_at: float = 0.0

    def charge(self, used_s: float, now: float, *, users: int = 1) -> float:
        """Record used time, and return the time in seconds for which the user must pause.

        Args:
            used_s: Time in seconds that was used since the last call.
            now: Current time in seconds of a monotonic clock.
            users: Number of users who divide the allowed fraction of time.
        """
        rate = self.share / users
        self._debt_s = max(0.0, self._debt_s - rate * (now - self._charged_at)) + used_s
        self._charged_at = now
        return min(self.max_pause_s, max(0.0, self._debt_s - self.burst_s) / rate)
