"""WebSocket connection of uvicorn with frame limits, timeouts and backpressure."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from http import HTTPStatus
from typing import Any

from uvicorn._types import ASGIReceiveEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from runtime.errors import MalformedRequest, SpeechError, TooManyFrames
from runtime.shared.port.connections.meters import (
    FrameMeter,
    LoopShare,
    LoopShares,
    SmallReads,
    headers_too_large,
    message_cost,
)
from runtime.shared.port.errors import format_error, socket_error

log = logging.getLogger(__name__)

_CLOSING_S = 10.0  # Seconds for a client to read the remaining data and answer a close frame.
_LINGER_S = 1.0  # Seconds for a client to read the close reason after the server has closed the connection.
_MAX_IGNORED_BYTES = 16 * 2**10  # Maximum number of bytes that are read and ignored after a close frame was sent.
_NO_PONG_REASON = "keepalive ping timeout"  # Close reason if a client sends no pong, as in uvicorn.


def _is_utf8(frames: list[bytes]) -> bool:
    try:
        b"".join(frames).decode()
    except UnicodeDecodeError:
        return False
    return True


class Handshake(ServerProtocol):
    """WebSocket handshake that sends errors in the same JSON format as the HTTP routes."""

    _path = ""

    def accept(self, request: Request) -> Response:
        self._path = request.path.partition("?")[0]
        return super().accept(request)

    def reject(self, status: int, text: str) -> Response:
        response = super().reject(status, text)
        error: SpeechError
        match status:
            case 414 | 431:
                error = headers_too_large()
            case 400 | 426 | 505:
                error = MalformedRequest(why="a WebSocket handshake lacks a header or has a wrong one")
            case _:
                return response
        response.status_code, response.reason_phrase = error.http_status, HTTPStatus(error.http_status).phrase
        response.body = json.dumps(format_error(error, self._path, "")).encode()
        for name in ("Content-Type", "Content-Length"):
            del response.headers[name]
        response.headers["Content-Type"] = "application/json"
        response.headers["Content-Length"] = str(len(response.body))
        response.headers["Sec-WebSocket-Version"] = "13"
        return response


class WebSocketConnection(WebSocketsSansIOProtocol, SmallReads):
    """WebSocket connection with limits on frames.

    A client whose messages use much of the event loop's time is throttled. A client that sends many empty frames is
    disconnected with close code 1008.

    Each send waits until earlier data is in the kernel's send buffer, which is small (serving.py).
    """

    def __init__(self, *arguments: Any, shares: LoopShares | None = None, **kwargs: Any) -> None:
        super().__init__(*arguments, **kwargs)
        self.conn = Handshake(max_size=self.config.ws_max_size, logger=self.logger)
        self._share = LoopShare(LoopShares() if shares is None else shares, self.loop)
        self._meter = FrameMeter(self.loop.time)
        self._pause_s = 0.0  # Pause in seconds before the next message is read.
        self._has_flooded = False
        self._ignored_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=0)
        self._has_end = False  # True if the connection is closed or will be closed soon.
        self._abort_timer: asyncio.TimerHandle | None = None

    # --- Methods that receive data.

    def data_received(self, data: bytes) -> None:
        if self._has_flooded:
            return
        began = time.thread_time()
        super().data_received(data)
        if self.close_sent and self._is_ignored_too_long(len(data)):
            return
        if not self.handshake_initiated:  # The library has refused the request before uvicorn has processed it.
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()
        elif pause_s := self._share.charge(time.thread_time() - began):
            self._throttle(pause_s)

    def handle_events(self) -> None:
        try:
            super().handle_events()
        except TooManyFrames as error:
            self._close_flood(error)

    def handle_text(self, event: Frame) -> None:
        self._meter.begin_message()
        super().handle_text(event)

    def handle_bytes(self, event: Frame) -> None:
        self._meter.begin_message()
        super().handle_bytes(event)

    def handle_cont(self, event: Frame) -> None:
        self._meter.count_fragment(len(event.data))
        # All fragments are joined in one buffer, because a list of small fragments would need many times their size in
        # memory.
        frames: list[Any] = self.frames
        if not isinstance(frames[0], bytearray):
            frames[0] = bytearray(frames[0])
        frames[0] += event.data
        if event.fin:
            self.send_receive_event_to_app()

    def handle_ping(self) -> None:
        self._meter.count_control()
        super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        self._meter.count_control()
        super().handle_pong(event)

    async def receive(self) -> ASGIReceiveEvent:
        """Wait for the next message and return it.

        The estimated processing time is charged to the client per message, and not per socket read, because one read
        may contain hundreds of messages.
        """
        if self._pause_s:
            await self._share.sleep_throttled(self._pause_s)
        message = await self.queue.get()
        if message["type"] == "websocket.receive":
            self._pause_s = self._share.charge(message_cost(len(message.get("text") or message.get("bytes") or "")))
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self._resume_reading()
        return message

    def handle_parser_exception(self) -> None:
        if self.conn.close_sent is None:  # Invalid frames have arrived before the end of the handshake.
            self.transport.abort()
        else:
            super().handle_parser_exception()

    def _is_ignored_too_long(self, size: int) -> bool:
        """Count bytes received after a close frame, and return True if the limit is exceeded.

        The connection then ends soon.
        """
        self._ignored_bytes += size
        if self._ignored_bytes > _MAX_IGNORED_BYTES and not self._has_flooded:
            self._has_flooded = True
            self.transport.pause_reading()
            self.loop.call_later(_LINGER_S, self.transport.abort)
        return self._has_flooded

    def _throttle(self, pause_s: float) -> None:
        if not self._share.is_throttled and not self.transport.is_closing():
            self.transport.pause_reading()
            self._share.throttle(pause_s, self._resume_reading)

    def _resume_reading(self) -> None:
        is_throttled = self.read_paused or self._has_flooded or self._share.is_throttled
        if not (is_throttled or self.transport.is_closing()):
            self.transport.resume_reading()

    def _close_flood(self, error: TooManyFrames) -> None:
        """Send the error and a close frame, and stop reading."""
        log.warning("a client sent too many WebSocket frames without content; its connection was closed")
        self._has_flooded = self._has_end = True
        self.stop_keepalive()
        self.transport.pause_reading()
        if self.conn.state is not State.OPEN:
            self.transport.abort()
            return
        self.conn.send_text(json.dumps(socket_error(error, self.scope["path"])).encode())
        self.conn.send_close(error.close_code, error.code)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = self.disconnected = True
        self.writable.set()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": error.close_code, "reason": error.code})
        self.close_timer = self.loop.call_later(_LINGER_S, self.transport.abort)

    # --- Methods that close the connection.

    def keepalive_timeout(self) -> None:
        if self._has_end:
            return  # The client may still read the close frame that was already sent.
        was_closing = self.close_sent or self.transport.is_closing()
        super().keepalive_timeout()
        # The connection is aborted, because uvicorn would wait until all data is sent. After a network failure, this
        # never happens.
        if was_closing:
            self.transport.abort()
            return
        # The application is notified now, because the close frame may have to wait until the client has read earlier
        # audio.
        self.disconnected = True
        self.writable.set()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": 1011, "reason": _NO_PONG_REASON})
        self._end_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_end = True
        self._share.stop_throttling()
        if self._abort_timer is not None:  # The timer is cancelled, because a closed transport cannot be aborted.
            self._abort_timer.cancel()
        super().connection_lost(exc)

    def _end_soon(self) -> None:
        if not self._has_end:
            self._has_end = True
            self._abort_timer = self.loop.call_later(_CLOSING_S, self.transport.abort)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not self.close_sent and not _is_utf8(self.frames):
            # No traceback is logged, because this is an error of the client.
            log.warning("a text message was not UTF-8; its connection was closed")
            self.frames = []
            self.conn.send_close(1007, "not UTF-8")
            self.handle_parser_exception()
            return
        super().send_receive_event_to_app()

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.close" and self.handshake_complete:
            # The close frame must be sent now, even if the client does not read.
            self.writable.set()
            self._end_soon()
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True  # The handshake was refused. Without this flag, uvicorn logs an error.
