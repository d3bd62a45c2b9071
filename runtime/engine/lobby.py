"""Who has no slot yet: whose voice is being read, whose text has not begun, and the line of those who could begin."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from runtime.engine.job import Job
from runtime.engine.line import Line
from runtime.engine.voices import ClonedVoice, Voices
from runtime.errors import GenerationFailed, QueueTimeout, SpeechError
from runtime.request import Queued

log = logging.getLogger(__name__)


class Lobby:
    """Engine thread only. Waiting here costs no slot and no device time."""

    def __init__(self, voices: Voices, slots: int, patience_s: float, wake: Callable[[], None]) -> None:
        self.line: Line[Job] = Line(slots, patience_s)
        self._voices, self._patience_s, self._wake = voices, patience_s, wake
        self._unready: dict[int, Job] = {}  # by ticket
        self._reading: dict[int, Future[ClonedVoice]] = {}  # by ticket

    def __len__(self) -> int:
        return len(self._unready) + len(self.line)

    @property
    def unready(self) -> int:
        """How many cannot stand in line yet. Thread: any."""
        return len(self._unready)

    def enter(self, job: Job, now: float) -> None:
        """A new request; who needs nothing more stands in line at once."""
        self._unready[job.ticket] = job
        reference, key = job.admission.reference, job.admission.voice_key
        if reference is not None and key is not None:
            job.voice = self._voices.get(key)
            if job.voice is None:
                self._reading[job.ticket] = self._voices.make(reference, key, self._wake)
        self.look(job, now)

    def find(self, ticket: int) -> Job | None:
        """Someone whose text may still change; who stands in line is found too."""
        return self._unready.get(ticket) or next((job for job in self.line if job.ticket == ticket), None)

    def leave(self, ticket: int) -> Job | None:
        self._reading.pop(ticket, None)
        return self._unready.pop(ticket, None) or self.line.leave(ticket)

    def look(self, job: Job, now: float) -> None:
        """Let a request into the line once it has a voice and something to say."""
        if job.ticket not in self._unready or job.ticket in self._reading or not job.feed.is_ready:
            return
        del self._unready[job.ticket]
        job.queued = now
        self.line.join(job)

    def refresh(self, now: float) -> Iterator[tuple[Job, SpeechError]]:
        """Take in the voices that were read; yields who has to leave, and why."""
        for ticket in [ticket for ticket, reading in self._reading.items() if reading.done()]:
            job, reading = self._unready[ticket], self._reading.pop(ticket)
            key = job.admission.voice_key
            try:
                assert key is not None
                job.voice = self._voices.keep(key, reading)
            except Exception:
                log.exception("the reference of request %d could not be read", ticket)
                del self._unready[ticket]
                yield job, GenerationFailed()
            else:
                self.look(job, now)

    def impatient(self, now: float) -> Iterator[tuple[Job, SpeechError]]:
        """Who has stood in line for too long has to leave it."""
        for job in self.line.impatient(now):
            wait_s = self.line.wait_s(len(self.line)) or self._patience_s
            yield job, QueueTimeout(limit=self._patience_s, retry_after_s=round(wait_s, 1))

    def tell_places(self) -> None:
        """Tell those in line where they stand, if that has changed."""
        for job, wait_s in self.line.moved():
            job.sink(Queued(job.place, None if wait_s is None else 1000 * wait_s))

    def empty(self) -> list[Job]:
        """Everybody leaves."""
        jobs = [*self._unready.values(), *self.line]
        for job in jobs:
            self.leave(job.ticket)
        return jobs
