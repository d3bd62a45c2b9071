"""Service that reads documents in child processes, with a fair queue for the clients."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from runtime.errors import Overloaded, RateLimited
from runtime.shared.child import run_child
from studio.documents.child import FAULT_STATUS, MEMORY_BYTES, UNREADABLE_STATUS
from studio.documents.values import DAMAGED, REASONS, TOO_LONG
from studio.errors import DocumentUnreadable

log = logging.getLogger(__name__)


class FairQueue:
    """Fair queue that lets the waiting clients run jobs in turn.

    Thread: event loop.

    Args:
        slots: Maximum number of concurrent jobs.
        waiting: Maximum number of waiting jobs of all clients.
        per_client: Maximum number of running and waiting jobs per client.
        retry_after_s: Retry delay in seconds that rejected clients receive.
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
    async def reserve_place(self, client: str) -> AsyncIterator[None]:
        """Reserve a place in the queue for a job while the context is open.

        Raises:
            RateLimited: The client has the maximum number of jobs.
            Overloaded: The queue is full.
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
        """Wait for a free job slot, and release the slot on exit."""
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
        """Grant the slot to the next client in round-robin order, or mark it as free."""
        while self._queues:
            client, queue = self._queues.popitem(last=False)
            granted = queue.popleft()
            if queue:
                self._queues[client] = queue
            if not granted.done():
                granted.set_result(None)
                return
        self._free += 1


TIMEOUT_S = 60.0  # Timeout of a child process in seconds, including its start on a busy machine.
MAX_CHILDREN = 2  # Maximum number of child processes. Each process may use its full memory limit.
MAX_WAITING = 14  # Maximum number of waiting documents. With two running jobs, 16 documents are in memory.
MAX_PER_CLIENT = 4
RETRY_AFTER_S = 5.0

COMMAND = (sys.executable, "-E", "-s", "-m", "studio.documents.child")


class DocumentService:
    """Service that reads documents in child processes, with a fair queue for the clients.

    Thread: event loop.
    """

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._queue = FairQueue(
            slots=MAX_CHILDREN, waiting=MAX_WAITING, per_client=MAX_PER_CLIENT, retry_after_s=RETRY_AFTER_S
        )

    async def read(
        self, receive: Callable[[], Awaitable[list[bytes]]], client: str = "", **options: Any
    ) -> list[bytes]:
        """Read an EPUB, DOCX, PDF, HTML, subtitle or text file in a child process.

        Args:
            receive: Function that returns the file as a list of chunks. It is called after a place in the queue is
                reserved.
            client: Name of the client. The queue serves the clients in turn.
            options: Keyword arguments of `reading.read`, with `spoken` as a dictionary.

        Returns:
            Chunks of one JSON object with title, chapters and notes. For text it also has the encoding, and for
            subtitles the times. The object may have tens of megabytes. Do not join or parse it in the event loop.

        Raises:
            DocumentUnreadable: The document cannot be read (values.py lists the reasons).
            RateLimited, Overloaded: Too many documents are waiting.
        """
        async with self._queue.reserve_place(client):
            pieces = await receive()
            async with self._queue.slot(client):
                command = (*COMMAND, json.dumps(options))
                output, status = await run_child(
                    command, pieces, timeout_s=self._timeout_s, max_output_bytes=MEMORY_BYTES
                )
        if status == 0:
            return output
        why = b"".join(output).decode() if status in (UNREADABLE_STATUS, FAULT_STATUS) else ""
        if status == FAULT_STATUS:
            log.info("the document is refused as damaged, because its reader failed:\n%s", why)
            why = DAMAGED
        raise DocumentUnreadable(why=why if why in REASONS else TOO_LONG)
