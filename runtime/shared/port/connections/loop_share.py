"""The share of the event loop's time that one client may use with small messages."""

from __future__ import annotations

from collections.abc import Callable

_SHARE = 0.1  # Of the loop's time, for all clients together that use more than their burst.
_BURST_S = 0.01  # 50 short messages at once.
_MAX_REST_S = 1.0
_MESSAGE_S = 200e-6  # What a session needs for one short message, on a slow core.
_BYTE_S = 20e-9
MESSAGE_PAUSE_S = _MESSAGE_S / _SHARE  # Between the messages of one read that belong to a client that rests.


class LoopShares:
    """The clients of a port that rest now, between which the share is divided."""

    def __init__(self) -> None:
        self.resting = 0


class LoopShare:
    """One client's account of loop time."""

    def __init__(self, shares: LoopShares, clock: Callable[[], float]) -> None:
        self._shares = shares
        self._clock = clock
        self._debt_s = 0.0
        self._charged_at = clock()

    def charge(self, cost_s: float) -> float:
        """Charge loop time that was used, and return for how many seconds nothing more should be read."""
        now = self._clock()
        rate = _SHARE / max(1, self._shares.resting)
        self._debt_s = max(0.0, self._debt_s - rate * (now - self._charged_at)) + cost_s
        self._charged_at = now
        return min(_MAX_REST_S, max(0.0, self._debt_s - _BURST_S) / rate)


def message_cost(size: int) -> float:
    """Return the loop time that a message of this many bytes or characters needs, in seconds."""
    return _MESSAGE_S + size * _BYTE_S
