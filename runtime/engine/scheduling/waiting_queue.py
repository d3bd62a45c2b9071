"""Waiting queue of requests that do not have a slot yet.

A request in the queue may also lack its text, its voice, or a loaded checkpoint.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from math import inf

from runtime.engine.audio.voice_cache import VoiceCache
from runtime.engine.cloned_voice import ClonedVoice
from runtime.engine.scheduling.sequence import Sequence, SequenceState
from runtime.errors import GenerationFailed, QueueTimeout, SpeechError
from runtime.request import Queued

log = logging.getLogger(__name__)

NEWEST_DURATION_WEIGHT = 0.2  # Weight of the newest duration in the running mean.
FRONT_REQUESTS = 8  # Maximum length of a queue in which every change of a position is reported immediately.
POSITION_INTERVAL_S = 0.25  # Minimum time in seconds between two reports of changed positions in a longer queue.


class WaitingQueue:
    """Fair queue of requests that wait for a slot, a voice, a text or a checkpoint.

    A waiting request uses neither a slot nor device time. The next slot goes to the caller with the fewest slots, and
    among several such callers to the request that has waited longest. Therefore the requests of one caller are served
    in order of arrival, and no caller has to wait for all requests of another caller.

    Thread: engine. `add_without_checkpoint`, `without_checkpoint`, `withdraw` and `remove_loaded` are called under
    the engine's lock.
    """

    def __init__(self) -> None:
        self._no_checkpoint: dict[int, Sequence] = {}  # Requests by ticket, as in the next three dicts.
        self._no_text: dict[int, Sequence] = {}
        self._no_voice: dict[int, Sequence] = {}
        self._no_slot: dict[int, Sequence] = {}  # Requests by ticket in order of arrival.
        self._by_state = {
            SequenceState.NO_CHECKPOINT: self._no_checkpoint,
            SequenceState.NO_TEXT: self._no_text,
            SequenceState.NO_VOICE: self._no_voice,
            SequenceState.NO_SLOT: self._no_slot,
        }
        self._reading: dict[int, Future[ClonedVoice]] = {}  # Voices that are being encoded.
        self._mean_slot_s: float | None = None  # Running mean of the time in seconds for which a request uses a slot.
        self._used_slots: Counter[str] = Counter()  # Number of used slots by caller.
        self._has_moved = False  # True if positions may have changed since the last notification.
        self._reported_at = -inf

    def open(self, voices: VoiceCache, slots: int, queue_timeout_s: float, wake: Callable[[], None]) -> None:
        """Set the voice cache, slots and timeout of the queue after the checkpoint is loaded.

        `wake` is called after each encoded voice.
        """
        self.voices = voices
        self._slots = slots
        self._queue_timeout_s = queue_timeout_s
        self._wake = wake

    def __len__(self) -> int:
        return sum(map(len, self._by_state.values()))

    @property
    def waiting_for_text(self) -> int:
        """Return the number of requests that wait for text.

        Thread: any.
        """
        return len(self._no_text)

    @property
    def unready(self) -> int:
        """Return the number of requests that wait for text or a voice.

        Requests whose checkpoint is not loaded yet are not counted.

        Thread: any.
        """
        return len(self._no_text) + len(self._no_voice)

    @property
    def ready(self) -> int:
        """Return the number of requests that wait only for a slot.

        Thread: any.
        """
        return len(self._no_slot)

    def is_unready(self, ticket: int) -> bool:
        """True if a request waits for text, a voice or a checkpoint.

        Thread: any.
        """
        return ticket in self._no_text or ticket in self._no_voice or ticket in self._no_checkpoint

    # --- Methods for requests that wait for a checkpoint.

    def add_without_checkpoint(self, sequence: Sequence) -> None:
        """Add a request whose checkpoint is not loaded yet."""
        self._put(sequence, SequenceState.NO_CHECKPOINT)
        sequence.sink(Queued(len(self._no_checkpoint) - 1))

    def without_checkpoint(self) -> list[Sequence]:
        """Return the requests that wait for their checkpoint."""
        return list(self._no_checkpoint.values())

    def withdraw(self, ticket: int) -> Sequence | None:
        """Remove and return a request that waits for its checkpoint, or return None."""
        return self._no_checkpoint.pop(ticket, None)

    def remove_loaded(self, is_loaded: Callable[[Sequence], bool] = lambda sequence: True) -> list[Sequence]:
        """Remove and return the requests that no longer have to wait for their checkpoint.

        Args:
            is_loaded: Function that returns True for such a request.
        """
        sequences = [sequence for sequence in self._no_checkpoint.values() if is_loaded(sequence)]
        for sequence in sequences:
            del self._no_checkpoint[sequence.ticket]
        return sequences

    # --- Methods for requests that wait for a voice, a text or a slot.

    def add_request(self, sequence: Sequence, now: float) -> None:
        """Add an admitted request, and start to encode its voice if the voice is not cached."""
        reference, key = sequence.admission.reference, sequence.admission.voice_key
        if reference is not None and key is not None:
            sequence.voice = self.voices.get(key)
            if sequence.voice is None:
                self._reading[sequence.ticket] = self.voices.make(reference, key, self._wake)
        self.update_request(sequence, now)

    def update_request(self, sequence: Sequence, now: float) -> None:
        """Set the state of a request to the next missing resource: text, voice or slot."""
        if sequence.state is SequenceState.NO_SLOT:
            return
        if not sequence.text_stream.is_ready:
            self._put(sequence, SequenceState.NO_TEXT)
        elif sequence.ticket in self._reading:
            self._put(sequence, SequenceState.NO_VOICE)
        else:
            sequence.queued = now
            self._put(sequence, SequenceState.NO_SLOT)

    def find(self, ticket: int) -> Sequence | None:
        """Return the waiting request with this ticket, or None.

        Requests whose checkpoint is not loaded yet are not found.
        """
        return self._no_slot.get(ticket) or self._no_text.get(ticket) or self._no_voice.get(ticket)

    def remove_request(self, ticket: int) -> Sequence | None:
        """Remove and return the waiting request with this ticket, or return None.

        Requests whose checkpoint is not loaded yet are not found.
        """
        self._reading.pop(ticket, None)
        if (sequence := self.find(ticket)) is not None:
            del self._by_state[sequence.state][ticket]
            self._has_moved = True
        return sequence

    def next(self) -> Sequence:
        """Remove and return the request that gets the next slot.

        At least one request must be ready.
        """
        turns = self._turns()
        sequence = self._no_slot.pop(min(turns, key=turns.__getitem__))
        self._used_slots[sequence.request.caller] += 1
        self._has_moved = True
        return sequence

    def remove_all(self) -> list[Sequence]:
        """Remove and return all requests except those whose checkpoint is not loaded yet."""
        tickets = [*self._no_text, *self._no_voice, *self._no_slot]
        return [sequence for ticket in tickets if (sequence := self.remove_request(ticket)) is not None]

    def collect_voices(self, now: float) -> Iterator[tuple[Sequence, SpeechError]]:
        """Assign finished voices to the requests that wait for them.

        Yields:
            Each request whose voice could not be encoded, and the error for its final event.
        """
        for ticket in [ticket for ticket, reading in self._reading.items() if reading.done()]:
            sequence, reading = self.find(ticket), self._reading.pop(ticket)
            assert sequence is not None
            assert sequence.admission.voice_key is not None
            try:
                sequence.voice = self.voices.store(sequence.admission.voice_key, reading)
            except Exception:
                log.exception("the reference of request %d could not be read", ticket)
                self.remove_request(ticket)
                yield sequence, GenerationFailed()
            else:
                self.update_request(sequence, now)

    def remove_expired(self, now: float) -> Iterator[tuple[Sequence, SpeechError]]:
        """Remove the requests that have waited too long for a slot.

        Yields:
            Each removed request, and the error for its final event.
        """
        late = [sequence for sequence in self._no_slot.values() if now - sequence.queued > self._queue_timeout_s]
        for sequence in late:
            self.remove_request(sequence.ticket)
        for sequence in late:
            wait_s = self.wait_s(self.ready) or self._queue_timeout_s
            yield sequence, QueueTimeout(limit=self._queue_timeout_s, retry_after_s=round(wait_s, 1))

    def report_places(self, now: float) -> None:
        """Report changed queue positions to the requests that wait for a slot.

        Each assigned slot changes all positions. Reporting every change to hundreds of requests would delay audio on
        the event loop. Therefore a long queue is notified at intervals only.
        """
        is_due = len(self._no_slot) <= FRONT_REQUESTS or now - self._reported_at >= POSITION_INTERVAL_S
        if not (self._has_moved and is_due):
            return
        self._has_moved, self._reported_at = False, now
        turns = self._turns()
        for position, ticket in enumerate(sorted(turns, key=turns.__getitem__)):
            sequence = self._no_slot[ticket]
            if sequence.position != position:
                sequence.position = position
                wait_s = self.wait_s(position)
                sequence.sink(Queued(position, None if wait_s is None else 1000 * wait_s))

    def record_released_slot(self, caller: str, held_s: float) -> None:
        """Record that a request of a caller has released its slot after ``held_s`` seconds."""
        known = self._mean_slot_s
        self._mean_slot_s = held_s if known is None else known + NEWEST_DURATION_WEIGHT * (held_s - known)
        self._used_slots -= Counter([caller])  # The subtraction of counters removes callers that use no slot.
        self._has_moved = True

    def wait_s(self, position: int) -> float | None:
        """Estimate the seconds until the request at a queue position gets a slot.

        Returns:
            None if no request has released a slot yet.
        """
        return None if self._mean_slot_s is None else (position + 1) * self._mean_slot_s / self._slots

    def _turns(self) -> dict[int, int]:
        """Return the fair-share rank of each ready request by ticket, in order of arrival.

        The rank is the number of slots that the caller will have when the request gets a slot. The request with the
        lowest rank is served first, and the earliest request among equal ranks.
        """
        holding = self._used_slots.copy()
        turns = {}
        for ticket, sequence in self._no_slot.items():
            turns[ticket] = holding[sequence.request.caller]
            holding[sequence.request.caller] += 1
        return turns

    def _put(self, sequence: Sequence, state: SequenceState) -> None:
        if sequence.state in self._by_state:
            self._by_state[sequence.state].pop(sequence.ticket, None)
        sequence.set_state(state)
        self._by_state[state][sequence.ticket] = sequence
        self._has_moved = True
