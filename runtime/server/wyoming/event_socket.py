"""Adapter from TCP connections of the Wyoming protocol to the interface of a WebSocket.

An event is a line of JSON, followed by data (JSON) and a payload (audio). The line contains the lengths of data and
payload. `receive` returns an event as the text ``{"type": …, "data": {…}}``. Payloads of clients are discarded.
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
from runtime.shared.port.connections.meters import LoopShare, LoopShares, message_cost

PROTOCOL_VERSION = "1.10.2"  # Version of the `wyoming` package that defines these events.

_CHUNK = "audio-chunk"
_GONE: Message = {"type": "websocket.disconnect", "code": 1006}
_LINGER_S = 1.0  # Seconds in which the client can read the last event and close the connection.
_READ = 65536


class EventSocket:
    """Connection of the Wyoming protocol with the interface of a WebSocket.

    `limit` is the maximum size in bytes of a line, of its data and of its payload. `reader` must have the same limit.
    """

    headers: Mapping[str, str] = {}  # The Wyoming protocol has no headers.

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int) -> None:
        self._reader = reader
        self._writer = writer
        self._limit = limit
        self._share = LoopShare(LoopShares(), asyncio.get_running_loop())
        self._is_lost = False  # True after invalid input. In this case, the start of the next event cannot be found.
        # Unsent data must remain in the send queue of the session, from which audio can be removed.
        writer.transport.set_write_buffer_limits(high=0)

    async def receive(self) -> Message:
        """Wait for the next event and return it as an ASGI message, also for a disconnect.

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
        """Send the event in the JSON text `data`."""
        event = json.loads(data)
        await self._send(event["type"], event["data"])

    async def send_bytes(self, data: bytes) -> None:
        """Send s16le samples in an audio-chunk event."""
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
        """Shut down the sending side of the connection.

        The Wyoming protocol has no close codes, so `code` and `reason` are not sent.
        """
        with suppress(OSError, RuntimeError):  # The connection may already be closed.
            self._writer.write_eof()

    async def leave(self) -> None:
        """Wait briefly until the client closes the connection, then abort the connection.

        If the connection were closed while it has unread input, the client might lose the last event.
        """
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                await self._discard()
        self._writer.transport.abort()

    async def _discard(self) -> None:
        """Read and discard input until the client closes the connection."""
        while await self._reader.read(_READ):
            pass


def _object(data: bytes) -> dict[str, Any]:
    try:
        return decode(data.decode())
    except UnicodeDecodeError:
        raise InvalidMessage(why="it is not UTF-8") from None
