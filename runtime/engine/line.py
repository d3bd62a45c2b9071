"""Keeps the line before the slots: first come, first served, with a place, an estimate and a longest wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

WEIGHT = 0.2  # of the newest hold in the running mean


class Waiter(Protocol):
    ticket: int
    queued: float  # when it began to wait
    place: int  # as last told


Waiting = TypeVar("Waiting", bound=Waiter)


class Line(Generic[Waiting]):
    """The requests that wait for a slot of one checkpoint."""

    def __init__(self, slots: int, patience_s: float) -> None:
        self._slots, self._patience_s = slots, patience_s
        self._waiters: deque[Waiting] = deque()
        self._hold_s: float | None = None  # running mean of how long a slot is held

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(tuple(self._waiters))

    def join(self, waiter: Waiting) -> None:
        self._waiters.append(waiter)

    def next(self) -> Waiting:
        return self._waiters.popleft()

    def leave(self, ticket: int) -> Waiting | None:
        """Take a request out of the line; None if it does not stand there."""
        waiter = next((waiter for waiter in self._waiters if waiter.ticket == ticket), None)
        if waiter is not None:
            self._waiters.remove(waiter)
        return waiter

    def impatient(self, now: float) -> list[Waiting]:
        """The requests that have waited for too long, taken out of the line."""
        late = [waiter for waiter in self._waiters if now - waiter.queued > self._patience_s]
        for waiter in late:
            self._waiters.remove(waiter)
        return late

    def moved(self) -> Iterator[tuple[Waiting, float | None]]:
        """The requests that stand elsewhere than they were told, and their estimated waits in seconds."""
        for place, waiter in enumerate(self._waiters):
            if waiter.place != place:
                waiter.place = place
                yield waiter, self.wait_s(place)

    def held(self, seconds: float) -> None:
        """A slot was given back after so long."""
        known = self._hold_s
        self._hold_s = seconds if known is None else known + WEIGHT * (seconds - known)

    def wait_s(self, place: int) -> float | None:
        """Seconds until the place comes up, if slots are held as long as they were lately; None: nobody knows yet."""
        return None if self._hold_s is None else (place + 1) * self._hold_s / self._slots
