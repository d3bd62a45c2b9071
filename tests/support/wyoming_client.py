"""Test client of Wyoming (Home Assistant's voice protocol) that can also send raw bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

WAIT_S = 60.0


@dataclass(slots=True)
class ReceivedEvents:
    """Events that a test client has received.

    It has their types, the data of the last event, and the audio of all events.
    """

    kinds: list[str]
    last: dict[str, Any]
    pcm: bytes


class WyomingClient:
    """Open TCP connection to a server of Wyoming (Home Assistant's voice protocol)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, kind: str, **data: Any) -> None:
        body = json.dumps(data).encode()
        await self.write(json.dumps({"type": kind, "data_length": len(body)}).encode() + b"\n" + body)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def event(self) -> tuple[str, dict[str, Any], bytes] | None:
        """Return the next event as (type, data, payload), or None at the end of the connection."""
        line = await asyncio.wait_for(self.reader.readline(), WAIT_S)
        if not line:
            return None
        header = json.loads(line)
        data = json.loads(await self.reader.readexactly(header["data_length"])) if header.get("data_length") else {}
        return header["type"], data, await self.reader.readexactly(header.get("payload_length", 0))

    async def until(self, *kinds: str) -> ReceivedEvents:
        """Receive events until one of these types or the end of the connection, and return them."""
        heard = ReceivedEvents([], {}, b"")
        while (event := await self.event()) is not None:
            kind, data, payload = event
            heard.pcm += payload
            heard.last = data
            if kind != "audio-chunk" or heard.kinds[-1:] != [kind]:
                heard.kinds.append(kind)
            if kind in kinds:
                break
        return heard


@asynccontextmanager
async def wyoming(uri: str) -> AsyncIterator[WyomingClient]:
    """Open a connection to a server with the URL ``tcp://HOST:PORT``, and yield a client."""
    parts = urlsplit(uri)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        yield WyomingClient(reader, writer)
    finally:
        writer.close()
