"""uvicorn's connections with what it leaves out: a clock for a request's headers, honest sends, an end for closes."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

_CLOSING_S = 10.0  # for a client to answer a close and take what is before it


class HttpConnection(HttpToolsProtocol):
    """Closed where the headers of a request have not come in ``header_s``, first or later, begun or not."""

    def __init__(self, *arguments: Any, header_s: float, **words: Any) -> None:
        super().__init__(*arguments, **words)
        self._header_s = header_s
        self._too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        # uvicorn's keep-alive clock stops at the first byte of the next request, so ours starts there.
        if self._too_late is None and (self.cycle is None or self.cycle.response_complete):
            self._await_headers()
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._stop_clock()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        self._too_late = self.loop.call_later(self._header_s, self.transport.abort)

    def _stop_clock(self) -> None:
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A send waits until what was sent before it has left for the kernel, whose buffer is small (serve.listen)."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=0)

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.close" and self.handshake_complete:
            # A goodbye does not wait for a client that reads nothing, and nor does the connection's end.
            self.writable.set()
            self.loop.call_later(_CLOSING_S, self.transport.abort)
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True  # it was answered, if by a refusal; uvicorn would log an error
