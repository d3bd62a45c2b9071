"""Turns for work that one client must not take from the others: a bounded queue, served one client after another."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from runtime.errors import Overloaded, RateLimited


class Turns:
    """Grants a number of slots to waiting clients in round-robin order. Thread: the event loop.

    Args:
        slots: how many may work at a time.
        waiting: how many more may wait, all clients together.
        per_client: how many one client may have, working and waiting.
        retry_after_s: advice for those that are refused.
    """

    def __init__(self, *, slots: int, waiting: int, per_client: int, retry_after_s: float) -> None:
        self._slots = slots
        self._free = slots
        self._max_waiting = waiting
        self._per_client = per_client
        self._retry_after_s = retry_after_s
        self._held: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """Reserve a place among those that work or wait, before anything of the work is received.

        Raises:
            RateLimited: the client has too many places.
            Overloaded: all places are taken.
        """
        if self._held[client] >= self._per_client:
            raise RateLimited(retry_after_s=self._retry_after_s)
        if self._held.total() >= self._slots + self._max_waiting:
            raise Overloaded(slots=self._slots, waiting=self._max_waiting, retry_after_s=self._retry_after_s)
        self._held[client] += 1
        try:
            yield
        finally:
            self._held[client] -= 1
            if not self._held[client]:
                del self._held[client]

    @asynccontextmanager
    async def slot(self, client: str) -> AsyncIterator[None]:
        """Wait for a slot and hold it."""
        if self._free:
            self._free -= 1
        else:
            granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queues.setdefault(client, deque()).append(granted)
            try:
                await granted
            except asyncio.CancelledError:
                if granted.done() and not granted.cancelled():
                    self._release()
                raise
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        """Pass the slot to the next client; who has been served waits behind the others."""
        while self._queues:
            client, queue = self._queues.popitem(last=False)
            granted = queue.popleft()
            if queue:
                self._queues[client] = queue
            if not granted.done():
                granted.set_result(None)
                return
        self._free += 1
