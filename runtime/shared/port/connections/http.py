"""HTTP connection of uvicorn with timeouts, size limits and backpressure.

HTTP/1.0 is supported as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import time
from collections.abc import Sized
from functools import partial
from typing import Any

import httptools
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from runtime.errors import HeadersTooLarge, MalformedRequest, SpeechError, TooManyConnections
from runtime.shared.port.connections.meters import IdleConnections, LoopShare, LoopShares, RequestMeter, SmallReads
from runtime.shared.port.errors import raw_error_response
from runtime.shared.system import reset_on_close

_RETRY_S = 1  # Value in seconds of the Retry-After header for refused clients.
_MAX_IGNORED_BYTES = 64 * 2**10
# Seconds for which the connection stays open after an error, so that a client that is still sending can read the
# response.
_ERROR_READ_TIMEOUT_S = 1.0
_MIN_REQUEST_S = 1e-3  # Minimum seconds of event loop time that are counted per request, as measured on a slow core.


class _PipelineFlow(FlowControl):
    """Flow control that pauses reading while requests of the connection wait in `pipeline`."""

    def __init__(self, transport: asyncio.Transport, pipeline: Sized) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        if not self._pipeline:
            super().resume_reading()


class HttpConnection(HttpToolsProtocol, SmallReads):
    """HTTP connection with limits on the size and the time of a request's headers.

    The connection is closed if the headers of a request do not arrive within ``header_s``, also on keep-alive
    connections.

    Pipelined requests are served one after another. After a burst of requests, the client is throttled together with
    other busy clients (`shares`). The time of a single task is unknown. Therefore all work of the event loop until the
    end of a response is counted for this client.
    """

    def __init__(
        self, *arguments: Any, header_s: float, idle_connections: IdleConnections, shares: LoopShares, **kwargs: Any
    ) -> None:
        self._meter = RequestMeter()
        self._refusal: SpeechError | None = None
        self._ignored_bytes = 0  # Number of bytes that arrived after an error response was sent.
        self._upgrade_end: int | None = None  # Offset of the first byte after the headers of an ignored upgrade.
        super().__init__(*arguments, **kwargs)
        self.url = b""
        self._header_s = header_s
        self._idle_connections = idle_connections
        self._drop_timer: asyncio.TimerHandle | None = None
        # Request that is being served. The attribute `cycle` may already refer to a later request.
        self._served: RequestResponseCycle | None = None
        self._began_s = 0.0  # CPU time of the event loop when `_served` was started.
        self._share = LoopShare(shares, self.loop)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _PipelineFlow(transport, self.pipeline)
        # With a limit of 0, each send waits until all earlier data is in the kernel's send buffer, which is small
        # (see serving.py).
        transport.set_write_buffer_limits(high=0)
        if len(self.connections) > self._idle_connections.max_open:
            longest_idle = self._idle_connections.longest_idle()
            if longest_idle is None:
                self._refuse(TooManyConnections(limit=self._idle_connections.max_open, retry_after_s=_RETRY_S))
                return
            longest_idle.drop()
        self._idle_connections.add_connection(self)
        self._await_headers()

    def drop(self) -> None:
        """Close the connection immediately and discard unsent data."""
        self._idle_connections.discard(self)
        self._stop_clock()
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            self._ignored_bytes += len(data)
            if self._ignored_bytes > _MAX_IGNORED_BYTES:
                self.transport.pause_reading()
            return
        # The keep-alive timer of uvicorn ends at the first byte of the next request, so the timer for the headers
        # starts here.
        if self._drop_timer is None and (self.cycle is None or self.cycle.response_complete):
            self._await_headers()
        self._meter.begin_read()
        super().data_received(data)
        unread = memoryview(data)
        while self._upgrade_end is not None and self._refusal is None:
            unread, self._upgrade_end = unread[self._upgrade_end :], None
            self._parse_without_upgrade()
            super().data_received(unread)  # type: ignore[arg-type]  # The parser takes any buffer.
        try:
            self._meter.end_read(len(data))
        except HeadersTooLarge as error:
            self._refuse(error)

    def on_message_begin(self) -> None:
        self._meter.begin()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers are dropped, because they are no headers and no route reads them.
        if self._meter.count_field():
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._meter.end_head()
        if (fault := self._head_fault()) is not None:
            raise MalformedRequest(why=fault)
        if self._ignores_upgrade():
            return  # The same request is parsed again without the upgrade.
        self._idle_connections.discard(self)
        self._stop_clock()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._meter.count_body(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._meter.end()
        if not self.parser.should_upgrade():
            super().on_message_complete()
            if self.cycle.response_complete and not self.parser.should_keep_alive():
                self.transport.close()

    def on_response_complete(self) -> None:
        used_s = max(_MIN_REQUEST_S, time.thread_time() - self._began_s)
        pause_s = self._share.charge(used_s) if self.pipeline else 0.0
        if pause_s and not self.transport.is_closing():
            self._share.throttle(pause_s, self._serve_next)
        else:
            self._serve_next()

    def _serve_next(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            self._idle_connections.add_connection(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle_connections.discard(self)
        self._stop_clock()
        self._share.stop_throttling()
        self._disconnect_served()
        self.pipeline.clear()
        super().connection_lost(exc)

    def _disconnect_served(self) -> None:
        if self._served is not None and not self._served.response_complete:
            self._served.disconnected = True
            self._served.message_event.set()

    def send_400_response(self, msg: str) -> None:
        """Send the error response for a request that the parser or this class has refused."""
        error = sys.exception()
        cause = None if error is None else error.__context__
        self._refuse(cause if isinstance(cause, SpeechError) else MalformedRequest(why="it cannot be read"))

    def _should_upgrade(self) -> bool:
        """Accept an upgrade only for GET without a body.

        For other requests, websockets closes the connection without a response. A pipelined upgrade is also ignored
        because an earlier response would be written into the WebSocket.
        """
        is_first = self.cycle is None or self.cycle.response_complete
        is_handshake = self.parser.get_method() == b"GET" and self.parser.get_http_version() == "1.1"
        has_body = any(
            name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
            for name, value in self.headers
        )
        return is_first and is_handshake and not has_body and super()._should_upgrade()

    def _ignores_upgrade(self) -> bool:
        return bool(self.parser.should_upgrade()) and not self._should_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        error = sys.exception()
        assert error is not None
        self._upgrade_end = error.args[0]

    def _parse_without_upgrade(self) -> None:
        """Parse the request's headers again without the Upgrade header.

        After an upgrade, the parser would read no body. Java's HTTP client offers HTTP/2 with every request.
        """
        version = self.parser.get_http_version().encode()
        fields = [name + b": " + value + b"\r\n" for name, value in self.headers if name != b"upgrade"]
        head = [self.parser.get_method(), b" ", self.url, b" HTTP/", version, b"\r\n", *fields, b"\r\n"]
        self.parser = httptools.HttpRequestParser(self)
        super().data_received(b"".join(head))

    def _head_fault(self) -> str | None:
        version = self.parser.get_http_version()
        if version not in ("1.0", "1.1"):
            return "its version must be HTTP/1.1 or HTTP/1.0"
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and version == "1.1"):
            return "it needs one Host header"
        is_connect = self.parser.get_method() == b"CONNECT"
        if is_connect or not self.url.isascii() or not self.url.startswith((b"/", b"http://", b"https://")):
            return "its target must be a path"
        named = self.url.split(b"/", 3)[2].lower() if not self.url.startswith(b"/") else b""
        if named and named != dict(self.headers).get(b"host", named).lower():
            return "its target must be a path, or name the host of its Host header"
        if any(name == b"transfer-encoding" and value.lower() != b"chunked" for name, value in self.headers):
            return "its transfer coding must be chunked"
        return None

    def _await_headers(self) -> None:
        self._drop_timer = self.loop.call_later(self._header_s, self.drop)

    def _stop_clock(self) -> None:
        if self._drop_timer is not None:
            self._drop_timer.cancel()
            self._drop_timer = None

    def _refuse(self, error: SpeechError) -> None:
        """Send the error response and stop reading.

        The connection is closed when the client closes it, or after `_ERROR_READ_TIMEOUT_S`.
        """
        self._refusal = error
        self._stop_clock()
        self._share.stop_throttling()
        self.pipeline.clear()
        self._disconnect_served()
        served = self._served
        if served is not None and served.response_started and not served.response_complete:
            self.drop()  # The response has already started, so the client would read an error response as a part of it.
            return
        path = self.url.partition(b"?")[0].decode("latin-1")
        if self.transport.is_closing():
            return
        self.transport.write(raw_error_response(error, path))
        self.transport.write_eof()
        # The connection is not closed yet, because a close with unread bytes would reset it, and the client could lose
        # the response.
        self._idle_connections.add_connection(self)
        self._drop_timer = self.loop.call_later(_ERROR_READ_TIMEOUT_S, self.drop)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._served = cycle
        self._began_s = time.thread_time()
        app = partial(_close_after_body, app, cycle)
        served = partial(_without_chunks, app, cycle) if _is_old(cycle) else app
        super()._start_asgi_task(cycle, partial(_or_broken_off, served, cycle))


async def _or_broken_off(app: ASGIApp, cycle: RequestResponseCycle, scope: Scope, receive: Receive, send: Send) -> None:
    """Run the application, and close the connection if its response is incomplete.

    The reason has already been logged.
    """
    await app(scope, receive, send)
    if cycle.response_started and not cycle.response_complete:
        cycle.disconnected = True
        cycle.transport.close()


async def _close_after_body(
    app: ASGIApp, cycle: RequestResponseCycle, scope: Scope, receive: Receive, send: Send
) -> None:
    """Run the application, and close the connection only after the complete request body.

    Closing a connection with unread bytes resets it, and the client could lose an early response. nginx then sends its
    own error 502.
    """
    closes = not cycle.keep_alive

    async def send_before_close(message: Message) -> None:
        is_end = message["type"] == "http.response.body" and not message.get("more_body", False)
        is_early = closes and is_end and cycle.more_body and not cycle.disconnected
        # Keep uvicorn from closing the connection too early. The header "Connection: close" was already sent.
        cycle.keep_alive |= is_early
        await send(message)
        if is_early and cycle.response_complete and cycle.transport.can_write_eof():
            cycle.transport.write_eof()

    await app(scope, receive, send_before_close)


def _is_old(cycle: RequestResponseCycle) -> bool:
    return cycle.scope["http_version"] == "1.0"


async def _without_chunks(
    app: ASGIApp, cycle: RequestResponseCycle, scope: Scope, receive: Receive, send: Send
) -> None:
    """Run the application for an HTTP/1.0 client (without chunked encoding).

    A body without a length ends with the connection.
    """
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
            # A normal close would mark the incomplete body as complete, so the connection is reset.
            raw = cycle.transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset_on_close())
            cycle.transport.abort()
