"""Tests of Cartesia's API with messages of LiveKit's, Pipecat's and Cartesia's clients."""

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
from tests.support.runtime_server import FREED_FRAMES, RunningServer, running_server
from tests.support.speech_client import WAIT_S, same_sound, spoken

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
    assert "context_id" in found  # Pipecat reads this field before all others.
    assert isinstance(found, dict)
    return found


async def until_done(connection: ClientConnection, *contexts: str) -> dict[str, list[dict[str, Any]]]:
    """Everything that came for these contexts, up to the last message of each."""
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
    return (await spoken(server.socket, text, **config)).pcm


def speaker(server: RunningServer) -> str:
    assert server.engine is not None
    return next(name for card in server.engine.cards for name in card.speakers)


async def said(server: RunningServer, text: str, **fields: Any) -> list[dict[str, Any]]:
    async with cartesia(server) as connection:
        await send(connection, text, "c", goes_on=False, **fields)
        return (await until_done(connection, "c"))["c"]


async def test_audio_equals_that_of_the_native_protocol(server: RunningServer) -> None:
    messages = await said(server, "Good morning.")
    assert same_sound(sound_of(messages), await native(server, "Good morning."))
    assert [message["type"] for message in messages[-2:]] == ["chunk", "done"]
    assert all(message["status_code"] == 206 for message in messages)


async def test_livekit_sends_words_and_ends_with_a_space(server: RunningServer) -> None:
    async with cartesia(server, x_api_key="key") as connection:
        for text in ("Good ", "morning. "):
            await send(connection, text, "a1b2", goes_on=True, add_timestamps=True)
        await send(connection, " ", "a1b2", goes_on=False, add_timestamps=True)
        messages = (await until_done(connection, "a1b2"))["a1b2"]
    assert same_sound(sound_of(messages), await native(server, "Good morning."))
    assert {message["type"] for message in messages} == {"chunk", "timestamps", "done"}


@pytest.mark.slow
async def test_pipecat_sends_sentences_and_uses_word_timestamps(server: RunningServer) -> None:
    more = {"max_buffer_delay_ms": 0, "add_timestamps": True, "use_normalized_timestamps": False}

    async with cartesia(server, "?api_key=k&cartesia_version=2026-03-01") as connection:
        await send(connection, "Good morning.", "turn", goes_on=True, **more)
        await send(connection, "", "turn", goes_on=False, **more)
        messages = (await until_done(connection, "turn"))["turn"]
    pcm = sound_of(messages)
    assert same_sound(pcm, await native(server, "Good morning."))
    times = [message["word_timestamps"] for message in messages if message["type"] == "timestamps"]
    assert [word for each_word in times for word in each_word["words"]] == ["Good", "morning."]
    assert times[-1]["end"][-1] == pytest.approx(len(pcm) / 48_000, abs=0.001)


@pytest.mark.slow
async def test_cartesia_client_can_push_text_and_close_inputs(server: RunningServer) -> None:
    async with cartesia(server, "", authorization="Bearer k", cartesia_version="2026-08-14") as connection:
        await send(connection, "Good ", "c", goes_on=True)
        await send(connection, "morning.", "c", goes_on=True)
        await send(connection, "", "c", goes_on=False)
        result = (await until_done(connection, "c"))["c"]
    assert same_sound(sound_of(result), await native(server, "Good morning."))


async def test_two_contexts_keep_their_audio_apart(server: RunningServer) -> None:
    async with cartesia(server) as connection:
        await send(connection, "Good morning.", "a", goes_on=True)
        await send(connection, "Good evening.", "b", goes_on=True)
        await send(connection, "", "b", goes_on=False)
        await send(connection, "", "a", goes_on=False)
        came = await until_done(connection, "a", "b")
    assert same_sound(sound_of(came["a"]), await native(server, "Good morning."))
    assert same_sound(sound_of(came["b"]), await native(server, "Good evening."))


@pytest.mark.slow("pcm_f32le-44100", "pcm_s16le-16000")
@pytest.mark.parametrize(("encoding", "rate"), [("pcm_f32le", 44_100), ("pcm_s16le", 16_000), ("pcm_mulaw", 8_000)])
async def test_other_formats_contain_the_same_audio(server: RunningServer, encoding: str, rate: int) -> None:
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


async def test_cancel_while_speaking_ends_only_that_context(server: RunningServer) -> None:
    async with cartesia(server) as connection:
        await send(connection, "Speak for a long time.", "long", goes_on=False, max_frames=4000)
        assert (await hear(connection))["type"] == "chunk"
        await send(connection, "Good morning.", "short", goes_on=False)
        await connection.send(json.dumps({"context_id": "long", "cancel": True}))
        came = await until_done(connection, "short")
        # Audio that was already sent may arrive, but no end.
        assert {message["type"] for message in came["long"]} <= {"chunk"}
        assert came["short"][-1]["type"] == "done"
        assert sound_of(came["short"])
        server.wait_until_idle()
        await send(connection, "", "ping", goes_on=False)
        assert (await hear(connection))["context_id"] == "ping"  # No further message of the cancelled context arrives.


async def test_disconnect_releases_its_slot_within_a_few_frames(server: RunningServer) -> None:
    for _ in range(3):
        async with cartesia(server) as connection:
            await send(connection, "Speak for a long time.", "a", goes_on=False, max_frames=4000)
            await send(connection, "Speak for a long ", "b", goes_on=True, max_frames=4000)
            assert (await hear(connection))["type"] == "chunk"
            connection.transport.abort()
        assert server.frames_until_idle() <= FREED_FRAMES


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"voice": {"mode": "id", "id": "nobody"}}, "unknown_voice"),
        ({"voice": {"mode": "embedding", "embedding": [0.1]}}, "invalid_config"),
        ({"language": "hi"}, "unsupported_language"),
        ({"output_format": {**NATIVE, "sample_rate": 96_000}}, "invalid_config"),
    ],
)
async def test_errors_end_only_their_context(server: RunningServer, fields: dict[str, Any], code: str) -> None:
    async with cartesia(server) as connection:
        await send(connection, "Hello.", "bad", goes_on=False, **fields)
        (error,) = (await until_done(connection, "bad"))["bad"]
        assert (error["type"], error["error_code"]) == ("error", code)
        await send(connection, "Hello.", "good", goes_on=False)
        assert (await until_done(connection, "good"))["good"][-1]["type"] == "done"


async def test_flush_is_acknowledged_after_its_audio_and_the_next_text_is_separate(server: RunningServer) -> None:
    async with cartesia(server) as connection:
        await send(connection, "Good morning.", "c", goes_on=True)
        await send(connection, "", "c", goes_on=True, flush=True)
        await send(connection, "Good evening.", "c", goes_on=True)
        await send(connection, "", "c", goes_on=False)
        messages = (await until_done(connection, "c"))["c"]
    kinds = [(message["type"], message.get("flush_id")) for message in messages]
    answer = kinds.index(("flush_done", 1))
    assert set(kinds[:answer]) == {("chunk", 1)}
    assert set(kinds[answer + 1 : -1]) == {("chunk", 2)}
    assert kinds[-1] == ("done", None)
    assert same_sound(sound_of(messages[:answer]), await native(server, "Good morning."))
    assert same_sound(sound_of(messages[answer:]), await native(server, "Good evening."))


@pytest.mark.slow
async def test_idle_context_expires_and_releases_its_slot(server: RunningServer) -> None:
    async with cartesia(server) as connection:
        await send(connection, "Good morning.", "c", goes_on=True, max_buffer_delay_ms=0, max_frames=40)
        # The speech ends although the client has not marked its text as complete.
        said = (await until_done(connection, "c"))["c"]
        server.wait_until_idle()
        await send(connection, " ", "c", goes_on=False)  # LiveKit ends a context so, and awaits a response.
        assert [message["type"] for message in (await until_done(connection, "c"))["c"]] == ["done"]
        await send(connection, "Good evening.", "c", goes_on=False)
        messages = [*said, *(await until_done(connection, "c"))["c"]]
    kinds = [message["type"] for message in messages]
    end = kinds.index("done")
    assert set(kinds[:end]) == {"chunk"}
    assert len(sound_of(messages[:end])) > 0
    assert same_sound(sound_of(messages[end:]), await native(server, "Good evening."))


async def test_tags_are_not_spoken(server: RunningServer) -> None:
    messages = await said(server, '<speed ratio="1.2"/>Good <emotion value="happy"/>morning.')
    assert same_sound(sound_of(messages), await native(server, "Good morning."))


@pytest.mark.slow
async def test_api_key_may_be_in_the_url(folder_of: FolderOf) -> None:
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


async def test_events_contain_audio_timestamps_and_the_end(server: RunningServer) -> None:
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
