"""uvicorn's HTTP connection with deadlines, a cap, sends that wait for the kernel, and HTTP/1.0."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from functools import partial
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from runtime.errors import TooManyConnections
from runtime.shared.port.connections.waiting import Waiting
from runtime.shared.port.error_shapes import error_body
from runtime.shared.system import lingers_not

_RETRY_S = 1  # after which a refused client may try again


class HttpConnection(HttpToolsProtocol):
    """Closed where the headers of a request have not come in ``header_s``, first or later, begun or not."""

    def __init__(self, *arguments: Any, header_s: float, waiting: Waiting, **words: Any) -> None:
        super().__init__(*arguments, **words)
        self._header_s = header_s
        self._waiting = waiting
        self._too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        # A send waits until what was sent before it has left for the kernel, whose buffer is small (listening.py).
        transport.set_write_buffer_limits(high=0)
        if len(self.connections) > self._waiting.most:
            longest = self._waiting.longest()
            if longest is None:
                self._turn_away()
                return
            longest.drop()
        self._waiting.begin(self)
        self._await_headers()

    def drop(self) -> None:
        """Close at once; what was to be sent is let go."""
        self._waiting.end(self)
        self._stop_clock()
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        # uvicorn's keep-alive clock stops at the first byte of the next request, so ours starts there.
        if self._too_late is None and (self.cycle is None or self.cycle.response_complete):
            self._await_headers()
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._waiting.end(self)
        self._stop_clock()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            self._waiting.begin(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._waiting.end(self)
        self._stop_clock()
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        self._too_late = self.loop.call_later(self._header_s, self.drop)

    def _stop_clock(self) -> None:
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None

    def _turn_away(self) -> None:
        """Say that there is no room, whatever this client came for."""
        error = TooManyConnections(limit=self._waiting.most, retry_after_s=_RETRY_S)
        body = json.dumps({"error": error_body(error)}).encode()
        head = (
            f"HTTP/1.1 {error.http_status} Service Unavailable\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nretry-after: {_RETRY_S}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        served = partial(_without_chunks, app, cycle) if _is_old(cycle) else app
        super()._start_asgi_task(cycle, partial(_or_broken_off, served, cycle))


async def _or_broken_off(app: ASGIApp, cycle: RequestResponseCycle, scope: Scope, receive: Receive, send: Send) -> None:
    """Close the connection of a response that was broken off; why is in the log by then, and uvicorn knows no more."""
    await app(scope, receive, send)
    if cycle.response_started and not cycle.response_complete:
        cycle.disconnected = True
        cycle.transport.close()


def _is_old(cycle: RequestResponseCycle) -> bool:
    return cycle.scope["http_version"] == "1.0"


async def _without_chunks(
    app: ASGIApp, cycle: RequestResponseCycle, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serve HTTP/1.0, which knows no chunks: a body without a length ends where the connection does."""
    is_open_ended = False

    async def plainly(message: Message) -> None:
        nonlocal is_open_ended
        if message["type"] == "http.response.start":
            is_open_ended = all(name.lower() != b"content-length" for name, _ in message.get("headers", []))
            if is_open_ended:
                cycle.chunked_encoding = False
        elif is_open_ended:
            cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    try:
        await app(scope, receive, plainly)
    finally:
        if is_open_ended and not cycle.response_complete:
            # Broken off. An orderly end would say that this was all.
            raw = cycle.transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, lingers_not())
            cycle.transport.abort()
