"""HTTP transport to the runtime that closes each connection at the end of its request.

httpcore leaks a connection if a request is cancelled while its connection is being opened. The runtime would then wait
for the request's headers until a timeout. Therefore, the connections of each request are recorded until they are
closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import httpcore
import httpx

from runtime.shared.certificates import certificates

Opening = asyncio.Task[httpcore.AsyncNetworkStream]

_opened: ContextVar[list[Opening] | None] = ContextVar("opened", default=None)
_closing: set[asyncio.Task[None]] = set()  # References to the tasks, because the event loop has only weak references.


class Upstream(httpx.AsyncHTTPTransport):
    """HTTP/1.1 transport that opens a new connection to the runtime for each request.

    It has no connection pool because the runtime may close an idle connection at any time.
    """

    def __init__(self, socket_options: list[tuple[int, int, int]]) -> None:
        super().__init__(
            verify=certificates(),
            trust_env=False,
            limits=httpx.Limits(max_keepalive_connections=0),
            socket_options=socket_options,
        )
        self._pool._network_backend = _Backend()  # The library httpx has no public argument for the backend.


@contextmanager
def connections_closed() -> Iterator[None]:
    """On exit, close all connections to the runtime that were opened in the context."""
    opened: list[Opening] = []
    token = _opened.set(opened)
    try:
        yield
    finally:
        _opened.reset(token)
        for opening in opened:
            opening.add_done_callback(_close)  # The callback runs now, or when the connection is open.


class _Backend(httpcore.AnyIOBackend):
    async def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore.AsyncNetworkStream:
        opening = asyncio.ensure_future(super().connect_tcp(*args, **kwargs))
        if (opened := _opened.get()) is not None:
            opened.append(opening)
        return await asyncio.shield(opening)


def _close(opening: Opening) -> None:
    if not opening.cancelled() and opening.exception() is None:
        task = asyncio.ensure_future(opening.result().aclose())
        _closing.add(task)
        task.add_done_callback(_closing.discard)
