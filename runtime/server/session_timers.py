"""Measures how long a session is silent and how long it lasts, by the clock that it is given."""

from __future__ import annotations

from collections.abc import Callable

from runtime.errors import Expired, SessionIdle, SessionTooLong
from runtime.settings import Limits

_NOTICE_S = 60.0  # before a session has lasted too long, where it may last so long at all


class SessionTimers:
    """The clocks of one session, in seconds of its own clock."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._last_event = clock()
        self._silence_s = limits.config_s  # idle_s from the first message on
        self._end = clock() + limits.session_s
        self._notice_s: float | None = min(_NOTICE_S, limits.session_s / 10)  # None once it was given

    def received(self) -> None:
        """The client has said something."""
        self._silence_s = self._limits.idle_s
        self.stirred()

    def stirred(self) -> None:
        """Something has happened to what the client asked for."""
        self._last_event = self._clock()

    def deadline(self, *, client_owes: bool) -> float:
        """When to look again; silence counts only while it is the client that owes something."""
        end = self._end - (self._notice_s or 0.0)
        return min(end, self._last_event + self._silence_s) if client_owes else end

    def expired(self, *, client_owes: bool) -> Expired | None:
        """Why the session must end now, or None."""
        now = self._clock()
        if client_owes and now >= self._last_event + self._silence_s:
            return SessionIdle(limit=self._silence_s)
        return SessionTooLong(limit=self._limits.session_s) if now >= self._end else None

    def notice(self) -> float | None:
        """The seconds that are left, once, when notice of the end is due."""
        now = self._clock()
        if self._notice_s is None or now < self._end - self._notice_s:
            return None
        self._notice_s = None
        return self._end - now
