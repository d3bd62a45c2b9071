"""Requests that have not ended, and admission to the waiting queue."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from runtime.engine.capacity.memory import CPU_SLOTS
from runtime.engine.loading.registry import RegistryEntry
from runtime.errors import Overloaded
from runtime.request import SpeechRequest
from runtime.settings import Settings

SOONEST_S = 0.1  # Minimum estimate for a retry.
RETRY_AFTER_S = 2.0  # Retry time if all places are taken and no slot duration is known.


@dataclass(slots=True)
class OpenRequest:
    """Record of a request that has not ended, in any state."""

    entry: RegistryEntry
    caller: str
    yields: bool
    has_begun: bool = False  # True if it has or had a slot.
    is_preempted: bool = False  # True if its place in the queue was given to another request.


class OpenRequests:
    """Open requests by ticket, in the order in which they came. What changes them is called under the engine's lock."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_ticket: dict[int, OpenRequest] = {}
        self._next_ticket = 1

    def __contains__(self, ticket: int) -> bool:
        return ticket in self._by_ticket

    def __getitem__(self, ticket: int) -> OpenRequest:
        return self._by_ticket[ticket]

    def get(self, ticket: int) -> OpenRequest | None:
        return self._by_ticket.get(ticket)

    @property
    def yielding(self) -> list[int]:
        """Tickets of those that make way for any other."""
        return [ticket for ticket, opened in self._by_ticket.items() if opened.yields]

    @property
    def lasting(self) -> int:
        """Return the number of requests that do not yield to others."""
        return len(self._by_ticket) - len(self.yielding)

    def add(self, entry: RegistryEntry, request: SpeechRequest) -> int:
        """Give a request its ticket."""
        ticket = self._next_ticket
        self._next_ticket += 1
        self._by_ticket[ticket] = OpenRequest(entry, request.caller, request.yields)
        return ticket

    def end(self, ticket: int) -> None:
        """Forget a request; an unknown ticket is ignored."""
        self._by_ticket.pop(ticket, None)

    def make_room(self, entry: RegistryEntry, request: SpeechRequest) -> tuple[int, Overloaded] | None:
        """See to it that a request may wait. One without text yet takes no place.

        The queue is full where every place is taken, and where whoever came last would wait for longer than any may.
        Then the caller with most requests gives up the place of its newest, if it has more even then than the caller
        of this one.

        Returns:
            The ticket of the request that gives up its place, and what it is told; None where there was room.

        Raises:
            Overloaded: no place is left for it.
        """
        slots = self.slots(entry)
        lasting = {
            ticket: opened.caller
            for ticket, opened in self._by_ticket.items()
            if opened.entry is entry and not opened.yields and not opened.is_preempted
        }
        waiting = len(lasting) - entry.waiting.unready - slots
        if request.yields and self._by_ticket:
            raise self._overloaded(entry, waiting)
        is_too_long = waiting > 0 and (entry.waiting.wait_s(waiting) or 0.0) > self._settings.limits.queue_s
        if waiting < self._settings.engine.max_waiting and not is_too_long:
            return None
        count = Counter(lasting.values())
        ready = [
            ticket
            for ticket in reversed(lasting)  # The newest first among callers with equally many requests.
            if not (self._by_ticket[ticket].has_begun or entry.waiting.is_unready(ticket))
        ]
        ticket = max(ready, key=lambda ticket: count[lasting[ticket]], default=None)
        if ticket is None or count[lasting[ticket]] <= count[request.caller] + 1:
            raise self._overloaded(entry, waiting)
        self._by_ticket[ticket].is_preempted = True
        return ticket, self._overloaded(entry, waiting)

    def slots(self, entry: RegistryEntry) -> int:
        """Slots of a checkpoint; of one that is not loaded yet, what is likely."""
        return entry.core.slots if entry.core else self._settings.engine.max_slots or CPU_SLOTS

    def _overloaded(self, entry: RegistryEntry, waiting: int) -> Overloaded:
        waiting = max(0, waiting)
        wait_s = entry.waiting.wait_s(waiting)
        retry_after_s = max(SOONEST_S, round(wait_s, 1)) if wait_s else RETRY_AFTER_S
        return Overloaded(slots=self.slots(entry), waiting=waiting, retry_after_s=retry_after_s)
