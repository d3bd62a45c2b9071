"""The line before the slots: first come, first served, with a place, an estimate and an end to patience."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

WEIGHT = 0.2  # of the newest hold in the running mean


class Waiter(Protocol):
    ticket: int
    queued: float  # when it began to wait
    place: int  # as last told


Job = TypeVar("Job", bound=Waiter)


class Line(Generic[Job]):
    """Who waits for a slot of one checkpoint."""

    def __init__(self, slots: int, patience_s: float) -> None:
        self._slots, self._patience_s = slots, patience_s
        self._jobs: deque[Job] = deque()
        self._hold_s: float | None = None  # running mean of how long a slot is held

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(tuple(self._jobs))

    def join(self, job: Job) -> None:
        self._jobs.append(job)

    def next(self) -> Job:
        return self._jobs.popleft()

    def leave(self, ticket: int) -> Job | None:
        """Take a request out of the line; None if it does not stand there."""
        job = next((job for job in self._jobs if job.ticket == ticket), None)
        if job is not None:
            self._jobs.remove(job)
        return job

    def impatient(self, now: float) -> list[Job]:
        """Who has waited for too long, taken out of the line."""
        late = [job for job in self._jobs if now - job.queued > self._patience_s]
        for job in late:
            self._jobs.remove(job)
        return late

    def moved(self) -> Iterator[tuple[Job, float | None]]:
        """Who stands elsewhere than it was told, and its estimated wait in seconds."""
        for place, job in enumerate(self._jobs):
            if job.place != place:
                job.place = place
                yield job, self.wait_s(place)

    def held(self, seconds: float) -> None:
        """A slot was given back after so long."""
        known = self._hold_s
        self._hold_s = seconds if known is None else known + WEIGHT * (seconds - known)

    def wait_s(self, place: int) -> float | None:
        """Seconds until the place comes up, if slots are held as long as they were lately; None: nobody knows yet."""
        return None if self._hold_s is None else (place + 1) * self._hold_s / self._slots
