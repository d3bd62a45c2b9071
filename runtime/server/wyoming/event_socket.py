"""Adapter with the interface of a WebSocket for Wyoming's events over TCP.

An event is a line of JSON, followed by data (JSON) and payload (audio) of the lengths in the line. It is returned as
one text, ``{"type": …, "data": {…}}``. Payloads of clients are discarded.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from starlette.types import Message
from starlette.websockets import WebSocketDisconnect

from runtime.errors import InvalidConfig, InvalidMessage, MessageTooLarge, MoreThan
from runtime.server.wire import Reply, decode
from runtime.server.wyoming.messages import SOUND
from runtime.shared.port.connections.loop_share import LoopShare, LoopShares, message_cost

PROTOCOL_VERSION = "1.10.2"  # Version of the `wyoming` package that defines these events.

_CHUNK = "audio-chunk"
_GONE: Message = {"type": "websocket.disconnect", "code": 1006}
_LINGER_S = 1.0  # Seconds for the client to read the last event and close the connection.
_READ = 65536


class EventSocket:
    """Wyoming connection.

    The reader must be limited to `limit` bytes: the maximum of a line, of its data and of its payload.
    """

    headers: Mapping[str, str] = {}  # The Wyoming protocol has no headers.

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int) -> None:
        self._reader = reader
        self._writer = writer
        self._limit = limit
        self._share = LoopShare(LoopShares(), asyncio.get_running_loop())
        self._is_lost = False  # True if invalid input has made the start of the next event unknown.
        # Unsent data stays in our send queue, where it can be dropped.
        writer.transport.set_write_buffer_limits(high=0)

    async def receive(self) -> Message:
        """Return the next event, or a disconnect.

        Raises:
            MessageTooLarge, InvalidMessage, InvalidConfig: The event is invalid.
        """
        try:
            if self._is_lost:
                await self._discard()
                return _GONE
            self._is_lost = True
            text = await self._event()
            self._is_lost = False
            if rest_s := self._share.charge(message_cost(len(text))):
                await asyncio.sleep(rest_s)
        except (OSError, asyncio.IncompleteReadError):
            return _GONE
        return {"type": "websocket.receive", "text": text}

    async def _event(self) -> str:
        try:
            line = await self._reader.readuntil(b"\n")
        except asyncio.LimitOverrunError:
            raise MessageTooLarge(what="The line", size=MoreThan(self._limit), limit=self._limit) from None
        header = _object(line)
        data_bytes, payload_bytes = (self._length(header, name) for name in ("data_length", "payload_length"))
        data = header.get("data", {})
        if data_bytes:
            more = _object(await self._reader.readexactly(data_bytes))
            data = {**data, **more} if isinstance(data, dict) else more
        if payload_bytes:
            await self._reader.readexactly(payload_bytes)
        return json.dumps({"type": header.get("type"), "data": data})

    def _length(self, header: Mapping[str, Any], name: str) -> int:
        length = header.get(name) or 0
        if not isinstance(length, int) or isinstance(length, bool) or length < 0:
            raise InvalidConfig(where=name, why="it must be a number of bytes", param=name)
        if length > self._limit:
            raise MessageTooLarge(what=name, size=length, limit=self._limit)
        return length

    async def send_text(self, data: str) -> None:
        """Send an event."""
        event = json.loads(data)
        await self._send(event["type"], event["data"])

    async def send_bytes(self, data: bytes) -> None:
        """Send samples."""
        await self._send(_CHUNK, SOUND, data)

    async def _send(self, kind: str, data: Reply, payload: bytes = b"") -> None:
        body = json.dumps(data, ensure_ascii=False).encode() if data else b""
        lengths = {"data_length": len(body), "payload_length": len(payload)}
        header = {"type": kind, "version": PROTOCOL_VERSION, **{name: size for name, size in lengths.items() if size}}
        self._writer.write(json.dumps(header).encode() + b"\n" + body + payload)
        try:
            await self._writer.drain()
        except OSError:
            raise WebSocketDisconnect(1006) from None

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        """Stop sending.

        The reason of the close was already sent as an event.
        """
        with suppress(OSError, RuntimeError):  # The connection is closed already.
            self._writer.write_eof()

    async def leave(self) -> None:
        """Wait until the client has read the last event.

        Closing a socket with unread input would discard the event.
        """
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                await self._discard()
        self._writer.transport.abort()

    async def _discard(self) -> None:
        """Read and discard input until the client closes."""
        while await self._reader.read(_READ):
            pass


def _object(data: bytes) -> dict[str, Any]:
    try:
        return decode(data.decode())
    except UnicodeDecodeError:
        raise InvalidMessage(why="it is not UTF-8") from None
