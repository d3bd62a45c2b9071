"""Open requests of the engine, and their admission to the waiting queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from runtime.engine.capacity.memory import CPU_SLOTS
from runtime.engine.loading.registry import RegistryEntry
from runtime.errors import Overloaded
from runtime.request import Sink, SpeechRequest
from runtime.settings import Settings

SOONEST_S = 0.1  # Minimum retry time in seconds.
RETRY_AFTER_S = 2.0  # Retry time in seconds if the queue is full and no duration of a request has been measured yet.


Command = Callable[[], None]


@dataclass(slots=True)
class Submission:
    """Record of a request that the engine thread has not admitted to the waiting queue.

    `deferred` contains the client's commands that run after the admission. The engine's lock protects it.
    """

    request: SpeechRequest
    sink: Sink
    is_validating: bool = False  # True if the validation has begun.
    deferred: list[Command] = field(default_factory=list)


@dataclass(slots=True)
class OpenRequest:
    """Record of a validated request that has not ended."""

    entry: RegistryEntry
    caller: str
    is_background: bool
    has_begun: bool = False  # True if the request has or had a slot.
    is_preempted: bool = False  # True if another request has taken its place in the queue.


class OpenRequests:
    """Open requests by ticket, in order of arrival.

    The caller must hold the engine's lock for every change.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_ticket: dict[int, OpenRequest] = {}

    def __contains__(self, ticket: int) -> bool:
        return ticket in self._by_ticket

    def __getitem__(self, ticket: int) -> OpenRequest:
        return self._by_ticket[ticket]

    def get(self, ticket: int) -> OpenRequest | None:
        return self._by_ticket.get(ticket)

    @property
    def background(self) -> list[int]:
        """Return the tickets of background requests."""
        return [ticket for ticket, opened in self._by_ticket.items() if opened.is_background]

    @property
    def foreground_count(self) -> int:
        """Return the number of requests that are not background requests."""
        return len(self._by_ticket) - len(self.background)

    def add_open_request(self, ticket: int, entry: RegistryEntry, request: SpeechRequest) -> None:
        self._by_ticket[ticket] = OpenRequest(entry, request.caller, request.is_background)

    def remove(self, ticket: int) -> None:
        """Remove a request, or do nothing if the ticket is unknown."""
        self._by_ticket.pop(ticket, None)

    def make_room(self, entry: RegistryEntry, request: SpeechRequest) -> tuple[int, Overloaded] | None:
        """Ensure that a new request fits into the waiting queue, if necessary by preemption.

        The queue is full if all places are taken or the expected wait of the newest request exceeds the limit. Requests
        that wait for text or a voice do not take a place. If the queue is full, the caller with the most requests loses
        its newest waiting request. This caller must still have more requests than the caller of the new request.

        Returns:
            Ticket and error of the request to preempt, or None if there is a free place.

        Raises:
            Overloaded: The queue is full, and no request can be preempted.
        """
        slots = self.slots(entry)
        foreground = {
            ticket: opened.caller
            for ticket, opened in self._by_ticket.items()
            if opened.entry is entry and not opened.is_background and not opened.is_preempted
        }
        waiting = len(foreground) - entry.waiting.unready - slots
        if request.is_background and self._by_ticket:
            raise self._overloaded(entry, waiting)
        is_too_long = waiting > 0 and (entry.waiting.wait_s(waiting) or 0.0) > self._settings.limits.queue_s
        if waiting < self._settings.engine.max_waiting and not is_too_long:
            return None
        count = Counter(foreground.values())
        ready = [
            ticket
            # If several callers have the same number of requests, the newest of their requests is chosen.
            for ticket in reversed(foreground)
            if not (self._by_ticket[ticket].has_begun or entry.waiting.is_unready(ticket))
        ]
        ticket = max(ready, key=lambda ticket: count[foreground[ticket]], default=None)
        if ticket is None or count[foreground[ticket]] <= count[request.caller] + 1:
            raise self._overloaded(entry, waiting)
        return ticket, self._overloaded(entry, waiting)

    def slots(self, entry: RegistryEntry) -> int:
        """Return the number of slots of a checkpoint, or an estimate before it is loaded."""
        return entry.core.slots if entry.core else self._settings.engine.max_slots or CPU_SLOTS

    def _overloaded(self, entry: RegistryEntry, waiting: int) -> Overloaded:
        waiting = max(0, waiting)
        wait_s = entry.waiting.wait_s(waiting)
        retry_after_s = max(SOONEST_S, round(wait_s, 1)) if wait_s else RETRY_AFTER_S
        return Overloaded(slots=self.slots(entry), waiting=waiting, retry_after_s=retry_after_s)
