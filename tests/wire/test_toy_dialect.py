"""Tests for the toy dialect, a minimal API that only the tests define, on a real server."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from runtime.server import app
from runtime.settings import Limits
from tests.conftest import FolderOf
from tests.support.runtime_server import RunningServer, running_server
from tests.support.speech_client import same_sound, speak_text
from tests.wire import toy_dialect

TEXT = "The **kettle** is on. Tea soon."


@pytest.fixture(scope="module")
def server(folder_of: FolderOf) -> Iterator[RunningServer]:
    """Run a server that serves the toy dialect in addition to all other APIs."""
    app.DIALECTS.append(sys.modules[toy_dialect.__name__])
    try:
        with running_server(folder_of("brief", "custom_voice"), limits=Limits(max_text_chars=100)) as running:
            yield running
    finally:
        app.DIALECTS.pop()


async def heard(connection: ClientConnection) -> tuple[bytes, dict[str, Any]]:
    """Receive audio up to the next JSON message, and return both."""
    pcm = b""
    while isinstance(message := await asyncio.wait_for(connection.recv(), 60), bytes):
        pcm += message
    return pcm, json.loads(message)


async def play(server: RunningServer, *messages: dict[str, Any] | str | bytes) -> tuple[bytes, dict[str, Any]]:
    """Send messages on a new socket, and return the audio and the first JSON message."""
    async with connect(f"ws://127.0.0.1:{server.port}/toy") as connection:
        for message in messages:
            await connection.send(json.dumps(message) if isinstance(message, dict) else message)
        return await heard(connection)


def test_toy_dialect_has_fewer_than_80_lines() -> None:
    assert len(Path(toy_dialect.__file__).read_text(encoding="utf-8").splitlines()) < 80


async def test_toy_dialect_equals_the_native_dialect(server: RunningServer) -> None:
    pcm, end = await play(server, {"say": TEXT}, {"end": True})
    native = await speak_text(server.socket, TEXT, text_filter="markdown", seed=7, max_frames=40)
    assert same_sound(pcm, native.pcm)
    assert (end["done"], end["samples"]) == ("max_tokens", len(pcm) // 2)


async def test_pause_in_the_input_starts_speech_of_the_buffered_text(server: RunningServer) -> None:
    async with connect(f"ws://127.0.0.1:{server.port}/toy") as connection:
        await connection.send(json.dumps({"say": "Tea is ready."}))
        pcm = await asyncio.wait_for(connection.recv(), 60)
        await connection.send(json.dumps({"end": True}))
        await heard(connection)
        assert isinstance(pcm, bytes)
        assert pcm


async def test_stop_releases_the_slot_and_a_second_text_may_follow(server: RunningServer) -> None:
    async def scene() -> dict[str, Any]:
        async with connect(f"ws://127.0.0.1:{server.port}/toy") as connection:
            await connection.send(json.dumps({"say": TEXT}))
            assert isinstance(await asyncio.wait_for(connection.recv(), 60), bytes)
            await connection.send(json.dumps({"stop": True}))
            _, stopped = await heard(connection)
            assert stopped["stopped_after"] > 0
            await connection.send(json.dumps({"say": "Again.", "end": True}))
            return (await heard(connection))[1]

    assert "done" in await scene()
    server.wait_until_idle()


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"say": "Hi", "voice": "nobody"}, "unknown_voice"),
        ({"say": 7}, "invalid_config"),
        ({"say": "a" * 101}, "text_too_long"),
        ({"say": " ", "end": True}, "empty_text"),
        ({"say": "Hi", "more": "x" * 2**20}, "message_too_large"),
        ("[" * 100_000, "invalid_json"),
        (b"", "invalid_json"),
    ],
)
async def test_limits_of_all_protocols_apply_to_a_new_protocol(
    server: RunningServer, message: dict[str, Any] | str | bytes, code: str
) -> None:
    assert (await play(server, message))[1]["error"] == code


@pytest.mark.parametrize(("message", "code"), [("{", 1007), (b"", 1003)])
async def test_malformed_message_ends_the_session(server: RunningServer, message: str | bytes, code: int) -> None:
    async with connect(f"ws://127.0.0.1:{server.port}/toy") as connection:
        await connection.send(message)
        await asyncio.wait_for(connection.wait_closed(), 60)
        assert connection.close_code == code
