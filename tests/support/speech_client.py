"""Test client of the native WebSocket protocol, based on the `websockets` library."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets import Subprotocol
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

PROTOCOL = "voicewright.speech.v1"
WAIT_S = 60.0
_ANYHOW: Mapping[str, Any] = {}


@dataclass(slots=True)
class Take:
    """Received audio and messages of one context (utterance)."""

    pcm: bytes = b""
    start: dict[str, Any] = field(default_factory=dict)
    end: dict[str, Any] = field(default_factory=dict)


class Talk:
    """Open WebSocket session of a test client with the server."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.created: dict[str, Any] = {}

    async def send(self, kind: str, **fields: Any) -> None:
        await self.connection.send(json.dumps({"type": kind, **fields}))

    async def receive(self) -> dict[str, Any] | bytes:
        message = await asyncio.wait_for(self.connection.recv(), WAIT_S)
        return json.loads(message) if isinstance(message, str) else message

    async def receive_until(self, *kinds: str) -> dict[str, Any]:
        """Skip messages until one of these types arrives, and return that message."""
        while True:
            message = await self.receive()
            if isinstance(message, dict) and message["type"] in kinds:
                return message

    async def first_audio(self) -> bytes:
        """Skip JSON messages until an audio message arrives, and return its bytes."""
        while not isinstance(message := await self.receive(), bytes):
            pass
        return message

    async def send_text(self, text: str, **fields: Any) -> None:
        await self.send("input.text", text=text, **fields)
        await self.send("input.done", **fields)

    async def receive_take(self) -> Take:
        """Receive messages until an utterance ends, and return its audio and messages."""
        take = Take()
        while True:
            message = await self.receive()
            if isinstance(message, bytes):
                take.pcm += message
            elif message["type"] == "audio.start":
                take.start = message
            elif message["type"] in {"audio.done", "context.cancelled", "error"}:
                take.end = message
                return take

    async def closed(self) -> tuple[int, str]:
        """Wait until the server closes the connection, and return the close code and reason."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                await asyncio.wait_for(self.connection.recv(), WAIT_S)
        return self.connection.close_code or 0, self.connection.close_reason or ""


@asynccontextmanager
async def talk(url: str, connecting: Mapping[str, Any] = _ANYHOW, /, **config: Any) -> AsyncIterator[Talk]:
    """Open a WebSocket session with the server, and yield it.

    Args:
        url: URL of the server.
        connecting: Arguments of `websockets.connect`.
        config: Fields of the message session.config, which is sent if there is a field.
    """
    protocols = [Subprotocol(PROTOCOL)]
    async with connect(url, subprotocols=protocols, max_size=None, compression=None, **connecting) as connection:
        session = Talk(connection)
        created = await session.receive()
        assert isinstance(created, dict)
        session.created = created
        if config:
            await session.send("session.config", **config)
        yield session


async def speak_text(url: str, text: str, **config: Any) -> Take:
    """Generate speech for a text on a new WebSocket, and return the audio and messages."""
    async with talk(url, **config) as session:
        await session.send_text(text)
        return await session.receive_take()


def same_sound(one: bytes, other: bytes) -> bool:
    """Return True if two utterances are bitwise equal and not silent."""
    return one == other and any(one)
