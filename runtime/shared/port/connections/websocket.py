"""uvicorn's WebSocket connection with an end for every close, and sends that wait for the kernel."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

log = logging.getLogger(__name__)

_CLOSING_S = 10.0  # for a client to answer a close and take what is before it
_NO_PONG = "keepalive ping timeout"  # uvicorn's words


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
