"""Tests for Cartesia's API with the messages of LiveKit, Pipecat and Cartesia's SDK."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import numpy as np
import pytest
import soxr
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from runtime.request import OTHER_SPEAKER
from runtime.settings import ServerSettings
from tests.conftest import FolderOf
from tests.support.runtime_server import RunningServer, running_server
from tests.support.speech_client import WAIT_S, same_sound, speak_text

NATIVE = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}
BASE: dict[str, Any] = {
    "model_id": "sonic-3",
    "voice": {"mode": "id", "id": "alloy"},
    "language": "en",
    "output_format": NATIVE,
    "seed": 11,
    "max_frames": 12,
}


@asynccontextmanager
async def cartesia(
    server: RunningServer, query: str = "?cartesia_version=2025-04-16", **headers: str
) -> AsyncIterator[ClientConnection]:
    url = f"ws://127.0.0.1:{server.port}/tts/websocket{query}"
    async with connect(
        url, additional_headers={name.replace("_", "-"): value for name, value in headers.items()}
    ) as found:
        yield found


async def send(connection: ClientConnection, text: str, context: str, *, goes_on: bool, **fields: Any) -> None:
    message = {**BASE, "transcript": text, "context_id": context, "continue": goes_on, **fields}
    await connection.send(json.dumps(message))


async def hear(connection: ClientConnection) -> dict[str, Any]:
    message = await asyncio.wait_for(connection.recv(), WAIT_S)
    assert isinstance(message, str)
    found = json.loads(message)
    assert "context_id" in found  # Pipecat reads this field before all other fields.
    assert isinstance(found, dict)
    return found


async def until_done(connection: ClientConnection, *contexts: str) -> dict[str, list[dict[str, Any]]]:
    """Receive messages until each context has ended, and return them keyed by context."""
    came: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    waiting = set(contexts)
    while waiting:
        message = await hear(connection)
        came[message["context_id"]].append(message)
        if message["type"] in {"done", "error"}:
            waiting.discard(message["context_id"])
    return came


def sound_of(messages: list[dict[str, Any]]) -> bytes:
    return b"".join(base64.b64decode(message["data"]) for message in messages if message["type"] == "chunk")


async def native(server: RunningServer, text: str) -> bytes:
    config = {"task_type": "custom_voice", "voice": "alloy", "language": "english", "seed": 11, "max_frames": 12}
    config["voice"] = speaker(server)
    return (await speak_text(server.socket, text, **config)).pcm


def speaker(server: RunningServer) -> str:
    assert server.engine is not None
    return next(name for card in server.engine.cards for name in card.speakers)


async def said(server: RunningServer, text: str, **fields: Any) -> list[dict[str, Any]]:
    async with cartesia(server) as connection:
        await send(connection, text, "c", goes_on=False, **fields)
        return (await until_done(connection, "c"))["c"]


@pytest.mark.slow("pcm_f32le-44100", "pcm_s16le-16000")
@pytest.mark.parametrize(("encoding", "rate"), [("pcm_f32le", 44_100), ("pcm_s16le", 16_000), ("pcm_mulaw", 8_000)])
async def test_all_cartesia_output_formats_contain_the_same_audio(
    server: RunningServer, encoding: str, rate: int
) -> None:
    wanted = np.frombuffer(await native(server, "Good morning."), "<i2") / 32768
    format_ = {"container": "raw", "encoding": encoding, "sample_rate": rate}
    data = sound_of(await said(server, "Good morning.", output_format=format_))
    assert abs(len(data) // {"pcm_f32le": 4, "pcm_s16le": 2}.get(encoding, 1) - len(wanted) * rate / 24_000) <= 1
    if encoding != "pcm_mulaw":
        kind, scale = ("<f4", 1) if encoding == "pcm_f32le" else ("<i2", 32768)
        whole = soxr.resample(wanted.astype(np.float32), 24_000, rate, quality="HQ")
        samples = np.frombuffer(data, kind) / scale
        size = min(len(samples), len(whole))
        assert np.abs(samples[:size] - whole[:size]).max() < 3e-4


@pytest.mark.slow
async def test_cartesia_api_key_may_be_in_the_url(folder_of: FolderOf) -> None:
    with running_server(folder_of("brief", "custom_voice"), server=ServerSettings(api_keys="s3cret")) as locked:

        async def opened(query: str) -> int:
            try:
                async with cartesia(locked, query):
                    return 101
            except InvalidStatus as refusal:
                return refusal.response.status_code

        assert await opened("?api_key=s3cret&cartesia_version=2026-03-01") == 101
        assert await opened("?api_key=guess") == 401
        assert await opened("") == 401
        for path, status in (("/voices", 200), ("/v1/models", 401)):
            reply = await asyncio.to_thread(httpx.get, f"{locked.http}{path}?api_key=s3cret")
            assert reply.status_code == status


async def test_cartesia_events_contain_audio_timestamps_and_the_end(server: RunningServer) -> None:
    body = {**BASE, "transcript": "Good morning.", "add_timestamps": True, "context_id": "mine"}
    reply = await asyncio.to_thread(httpx.post, f"{server.http}/tts/sse", json=body, timeout=60)
    assert reply.headers["content-type"].startswith("text/event-stream")
    messages = []
    for block in reply.text.strip().split("\n\n"):
        kind, data = block.split("\n")
        messages.append(json.loads(data.removeprefix("data: ")))
        assert kind == f"event: {messages[-1]['type']}"
    assert same_sound(sound_of(messages), await native(server, "Good morning."))
    assert {message["context_id"] for message in messages} == {"mine"}
    times = [message["word_timestamps"] for message in messages if message["type"] == "timestamps"]
    assert [word for each_word in times for word in each_word["words"]] == ["Good", "morning."]
    (note,) = messages[-1].pop("notes")
    assert (note, reply.headers["x-notes"]) == (OTHER_SPEAKER.format(speaker="serena"), note)
    assert messages[-1] == {"type": "done", "done": True, "status_code": 206, "context_id": "mine"}
    refused = await asyncio.to_thread(httpx.post, f"{server.http}/tts/sse", json={**body, "voice": "nobody"})
    assert (refused.status_code, refused.json()["error_code"]) == (404, "unknown_voice")


def test_voices_are_listed_in_pages_and_individually(either: RunningServer) -> None:
    server = either
    listed = httpx.get(f"{server.http}/voices", params={"limit": 100}).json()
    ids = [voice["id"] for voice in listed["data"]]
    assert speaker(server) in ids
    assert not listed["has_more"]
    first = httpx.get(f"{server.http}/voices", params={"limit": 1}).json()
    assert ([voice["id"] for voice in first["data"]], first["has_more"]) == (ids[:1], len(ids) > 1)
    after = httpx.get(f"{server.http}/voices", params={"starting_after": ids[0], "limit": 1}).json()
    assert [voice["id"] for voice in after["data"]] == ids[1:2]
    assert httpx.get(f"{server.http}/voices/{ids[0]}").json() == listed["data"][0]
    assert httpx.get(f"{server.http}/voices/nobody").status_code == 404
    for limit in ("0", "x", "1000", "00019999", "\u0663"):
        assert httpx.get(f"{server.http}/voices", params={"limit": limit}).status_code == 400
