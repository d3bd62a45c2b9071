"""Shutdown of the proxy, which waits until open requests and WebSockets have finished.

Thread: event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Seconds without data after which a WebSocket counts as idle. It applies only if the runtime continues to run after the
# studio has stopped.
IDLE_WEBSOCKET_S = 5.0
_POLL_INTERVAL_S = 0.05  # Poll interval in seconds while requests are running.


class Drain:
    """Shutdown state of the proxy, with a counter of open requests and WebSockets."""

    def __init__(self) -> None:
        self._open = 0  # Number of open requests and WebSockets.
        self._begun = asyncio.Event()
        self._ends_idle = False
        self._must_close_all = asyncio.Event()

    @property
    def has_begun(self) -> bool:
        """True if the shutdown of the proxy has begun.

        New requests are then refused.
        """
        return self._begun.is_set()

    @property
    def has_open_requests(self) -> bool:
        """True if the proxy is forwarding at least one request or WebSocket."""
        return self._open > 0

    @contextmanager
    def count_as_open(self) -> Iterator[None]:
        """Count one request or WebSocket as open while the context is open."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    async def drain_requests(self, timeout_s: float, *, ends_idle: bool) -> None:
        """Begin the shutdown: refuse new requests and wait until the open requests have ended.

        The wait ends after `timeout_s` seconds even if requests are open. If `ends_idle` is True, idle WebSockets are
        closed. This is needed if the runtime continues to run and therefore does not close them.
        """
        self._ends_idle = ends_idle
        self._begun.set()
        end = asyncio.get_running_loop().time() + timeout_s
        while self._open and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110  two conditions
            await asyncio.sleep(_POLL_INTERVAL_S)

    async def close_all(self, timeout_s: float) -> None:
        """Close all open requests and WebSockets of the proxy, and wait until they have ended.

        The wait ends after `timeout_s` seconds.
        """
        self._must_close_all.set()
        await self.drain_requests(timeout_s, ends_idle=True)

    async def wait_for_close_all(self) -> None:
        """Wait until the shutdown requires that all open requests are closed."""
        await self._must_close_all.wait()

    async def wait_for_websocket_close(self, last_message_at: Callable[[], float]) -> None:
        """Wait until the shutdown has to close a WebSocket.

        Args:
            last_message_at: Function that returns the time of the WebSocket's last message, on the event loop's clock.
        """
        loop = asyncio.get_running_loop()
        await self._begun.wait()
        while not self._must_close_all.is_set():
            if self._ends_idle and loop.time() - last_message_at() > IDLE_WEBSOCKET_S:
                return
            await asyncio.sleep(_POLL_INTERVAL_S)
