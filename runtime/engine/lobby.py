"""Holds the requests that have no slot yet: without a voice, without text, or in line for a slot."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from runtime.engine.line import Line
from runtime.engine.sequence import Sequence
from runtime.engine.voice_cache import ClonedVoice, VoiceCache
from runtime.errors import GenerationFailed, QueueTimeout, SpeechError
from runtime.request import Queued

log = logging.getLogger(__name__)


class Lobby:
    """Engine thread only. Waiting here costs no slot and no device time."""

    def __init__(self, voices: VoiceCache, slots: int, patience_s: float, wake: Callable[[], None]) -> None:
        self.line: Line[Sequence] = Line(slots, patience_s)
        self._voices, self._patience_s, self._wake = voices, patience_s, wake
        self._unready: dict[int, Sequence] = {}  # by ticket
        self._reading: dict[int, Future[ClonedVoice]] = {}  # by ticket

    def __len__(self) -> int:
        return len(self._unready) + len(self.line)

    @property
    def unready(self) -> int:
        """How many cannot stand in line yet. Thread: any."""
        return len(self._unready)

    @property
    def short_of_text(self) -> int:
        """How many of these requests have no text yet. Thread: any."""
        return sum(not sequence.text_stream.is_ready for sequence in tuple(self._unready.values()))

    def enter(self, sequence: Sequence, now: float) -> None:
        """A new request; one that needs nothing more stands in line at once."""
        self._unready[sequence.ticket] = sequence
        reference, key = sequence.admission.reference, sequence.admission.voice_key
        if reference is not None and key is not None:
            sequence.voice = self._voices.get(key)
            if sequence.voice is None:
                self._reading[sequence.ticket] = self._voices.make(reference, key, self._wake)
        self.look(sequence, now)

    def find(self, ticket: int) -> Sequence | None:
        """A request whose text may still change, in line or not."""
        return self._unready.get(ticket) or next(
            (sequence for sequence in self.line if sequence.ticket == ticket), None
        )

    def leave(self, ticket: int) -> Sequence | None:
        self._reading.pop(ticket, None)
        return self._unready.pop(ticket, None) or self.line.leave(ticket)

    def look(self, sequence: Sequence, now: float) -> None:
        """Let a request into the line once it has a voice and something to say."""
        if (
            sequence.ticket not in self._unready
            or sequence.ticket in self._reading
            or not sequence.text_stream.is_ready
        ):
            return
        del self._unready[sequence.ticket]
        sequence.queued = now
        self.line.join(sequence)

    def refresh(self, now: float) -> Iterator[tuple[Sequence, SpeechError]]:
        """Take in the voices that were read; yields the requests that have to leave, and why."""
        for ticket in [ticket for ticket, reading in self._reading.items() if reading.done()]:
            sequence, reading = self._unready[ticket], self._reading.pop(ticket)
            key = sequence.admission.voice_key
            try:
                assert key is not None
                sequence.voice = self._voices.keep(key, reading)
            except Exception:
                log.exception("the reference of request %d could not be read", ticket)
                del self._unready[ticket]
                yield sequence, GenerationFailed()
            else:
                self.look(sequence, now)

    def impatient(self, now: float) -> Iterator[tuple[Sequence, SpeechError]]:
        """Requests that have stood in line for too long have to leave it."""
        for sequence in self.line.impatient(now):
            wait_s = self.line.wait_s(len(self.line)) or self._patience_s
            yield sequence, QueueTimeout(limit=self._patience_s, retry_after_s=round(wait_s, 1))

    def tell_places(self) -> None:
        """Tell those in line where they stand, if that has changed."""
        for sequence, wait_s in self.line.moved():
            sequence.sink(Queued(sequence.place, None if wait_s is None else 1000 * wait_s))

    def empty(self) -> list[Sequence]:
        """Everybody leaves."""
        sequences = [*self._unready.values(), *self.line]
        for sequence in sequences:
            self.leave(sequence.ticket)
        return sequences
