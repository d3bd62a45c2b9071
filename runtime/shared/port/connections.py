"""Adds to uvicorn's connections what it leaves out: deadlines, a cap, honest sends, HTTP/1.0, an end for closes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from functools import partial
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from runtime.errors import TooManyConnections
from runtime.shared.port.error_shapes import error_body
from runtime.shared.system import lingers_not, most_files

log = logging.getLogger(__name__)

_CLOSING_S = 10.0  # for a client to answer a close and take what is before it
_NO_PONG = "keepalive ping timeout"  # uvicorn's words
_RETRY_S = 1  # after which a refused client may try again


def most_open(max_connections: int) -> int:
    """Connections that may be open: as many again as may be served, for those that wait for their next request.

    Never more than half of the files that the process may open: a relayed one takes another.
    """
    files = most_files()
    return 2 * max_connections if files is None else max(1, min(2 * max_connections, files // 2))


class Waiting:
    """The open connections without a request; the one that waited longest goes where there is no room for another."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._waiting: dict[HttpConnection, None] = {}  # the longest first

    def begin(self, connection: HttpConnection) -> None:
        self.end(connection)
        self._waiting[connection] = None

    def end(self, connection: HttpConnection) -> None:
        self._waiting.pop(connection, None)

    def longest(self) -> HttpConnection | None:
        return next(iter(self._waiting), None)


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


def _is_utf8(frames: list[bytes]) -> bool:
    try:
        b"".join(frames).decode()
    except UnicodeDecodeError:
        return False
    return True


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A send waits until what was sent before it has left for the kernel, whose buffer is small (listening.py)."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=0)
        self._has_end = False  # the connection is cut soon, whatever the client does, or is gone
        self._cut: asyncio.TimerHandle | None = None

    def keepalive_timeout(self) -> None:
        if self._has_end:
            return  # a goodbye is on its way, to a client that may be about to read it
        was_closing = self.close_sent or self.transport.is_closing()
        super().keepalive_timeout()
        # uvicorn waits until what was sent has left, which it never does where the network is gone.
        if was_closing:
            self.transport.abort()
            return
        # The application hears of it at once. The reason may stand behind sound that the client has not read yet.
        self.disconnected = True
        self.writable.set()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": 1011, "reason": _NO_PONG})
        self._end_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_end = True
        if self._cut is not None:  # a transport that has sent all and is gone cannot be aborted
            self._cut.cancel()
        super().connection_lost(exc)

    def _end_soon(self) -> None:
        if not self._has_end:
            self._has_end = True
            self._cut = self.loop.call_later(_CLOSING_S, self.transport.abort)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not self.close_sent and not _is_utf8(self.frames):
            # uvicorn does the same with a traceback. It is the client's fault, and no more than a line.
            log.warning("a text message was not UTF-8; its connection was closed")
            self.frames = []
            self.conn.send_close(1007, "not UTF-8")
            self.handle_parser_exception()
            return
        super().send_receive_event_to_app()

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.close" and self.handshake_complete:
            # A goodbye does not wait for a client that reads nothing, and nor does the connection's end.
            self.writable.set()
            self._end_soon()
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True  # it was answered, if by a refusal; uvicorn would log an error
