"""Idle timeout and maximum duration of a session."""

from __future__ import annotations

from collections.abc import Callable

from runtime.errors import Expired, SessionIdle, SessionTooLong
from runtime.settings import Limits

_NOTICE_S = 60.0  # Warning time before a session reaches its limit.


class SessionTimers:
    """The clocks of one session. ``silence_s``: how long its client may say nothing now; None: it owes nothing."""

    def __init__(self, limits: Limits, clock: Callable[[], float], *, gives_notice: bool = False) -> None:
        self._limits = limits
        self._clock = clock
        self._last_event = clock()
        self._end = clock() + limits.session_s
        # None where none is given, or it was given.
        self._notice_s = min(_NOTICE_S, limits.session_s / 10) if gives_notice else None

    def stirred(self) -> None:
        """The client has said something, or something has happened to what it asked for."""
        self._last_event = self._clock()

    def deadline(self, silence_s: float | None) -> float:
        """Return when to check the timers again."""
        end = self._end - (self._notice_s or 0.0)
        return end if silence_s is None else min(end, self._last_event + silence_s)

    def expired(self, silence_s: float | None) -> Expired | None:
        """Return the timeout that ends the session now, the earliest first, or None."""
        now = self._clock()
        if silence_s is not None and self._last_event + silence_s <= min(now, self._end):
            return SessionIdle(limit=silence_s)
        return SessionTooLong(limit=self._limits.session_s) if now >= self._end else None

    def notice(self) -> float | None:
        """The seconds that are left, once, when notice of the end is due."""
        now = self._clock()
        if self._notice_s is None or now < self._end - self._notice_s:
            return None
        self._notice_s = None
        return self._end - now
