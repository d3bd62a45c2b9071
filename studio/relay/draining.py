"""Shutdown of the relay: waits until relayed requests and WebSockets have finished.

Thread: event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# If the runtime outlives the studio, a WebSocket without data for this many seconds counts as idle.
AT_REST_S = 5.0
_POLL_INTERVAL_S = 0.05  # Poll interval in seconds while requests are running.


class Drain:
    """Shutdown state, with a counter of relayed requests and WebSockets."""

    def __init__(self) -> None:
        self._open = 0  # Number of open requests and WebSockets.
        self._begun = asyncio.Event()
        self._ends_idle = False
        self._all_out = asyncio.Event()

    @property
    def begun(self) -> bool:
        """True if the shutdown has begun, so new requests are refused."""
        return self._begun.is_set()

    @property
    def is_passing(self) -> bool:
        """True if at least one request is being relayed."""
        return self._open > 0

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Context manager that counts a request or WebSocket while it is open."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    async def rest(self, timeout_s: float, *, ends_idle: bool) -> None:
        """Refuse new requests, and wait until all requests have ended or the timeout has passed.

        `ends_idle` closes idle WebSockets. It is needed if the runtime outlives the studio and does not close them.
        """
        self._ends_idle = ends_idle
        self._begun.set()
        end = asyncio.get_running_loop().time() + timeout_s
        while self._open and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110  two conditions
            await asyncio.sleep(_POLL_INTERVAL_S)

    async def turn_out(self, timeout_s: float) -> None:
        """Close all remaining requests and WebSockets, and wait for their end or a timeout."""
        self._all_out.set()
        await self.rest(timeout_s, ends_idle=True)

    async def until_out(self) -> None:
        """Wait until the remaining requests have to be closed."""
        await self._all_out.wait()

    async def until_closing(self, moved: Callable[[], float]) -> None:
        """Wait until a WebSocket has to be closed.

        Args:
            moved: Function that returns the time (event loop's clock) of the WebSocket's last message.
        """
        loop = asyncio.get_running_loop()
        await self._begun.wait()
        while not self._all_out.is_set():
            if self._ends_idle and loop.time() - moved() > AT_REST_S:
                return
            await asyncio.sleep(_POLL_INTERVAL_S)
