"""Limit on the fraction of a thread's time that a client or a task may use."""

from __future__ import annotations

from dataclasses import dataclass


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
