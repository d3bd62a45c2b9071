"""Tests for the native API over real sockets: modes, contexts, cancel and errors."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from runtime.engine.engine import Engine
from runtime.request import AudioChunk, Mode, Sampling, SpeechRequest
from runtime.settings import Limits, Settings
from tests.conftest import FolderOf
from tests.support.runtime_server import FREED_FRAMES, RunningServer
from tests.support.speech_client import PROTOCOL, same_sound, speak_text, talk
from tests.wire.conftest import Serving

VOICE: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 12}
LONG: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 4000}


async def test_each_mode_speaks(server: RunningServer, ref_audio: str) -> None:
    configs: list[dict[str, Any]] = [
        {"task_type": "CustomVoice"},
        {"task_type": "VoiceDesign", "voice_description": "A calm old man."},
        {"task_type": "Base", "ref_audio": ref_audio, "ref_text": "Some words."},
        {"task_type": "Base", "ref_audio": ref_audio, "x_vector_only_mode": True},
    ]
    for config in configs:
        take = await speak_text(server.socket, "Good morning.", seed=3, max_frames=5, **config)
        assert take.end["type"] == "audio.done", take.end
        assert take.end["stop_reason"] in {"eos", "max_tokens"}
        assert len(take.pcm) == take.end["total_bytes"] == 2 * take.end["total_samples"] > 0
        assert take.end["metrics"]["frames"] * 1920 == take.end["total_samples"]
        assert take.end["metrics"]["ttfa_ms"] > 0
        assert take.start["seed"] == take.end["seed"] == 3
        assert np.frombuffer(take.pcm, "<i2").any()


async def test_audio_equals_the_audio_of_the_engine(server: RunningServer, folder_of: FolderOf) -> None:
    engine = Engine.open(Settings(models=(str(folder_of("brief", "custom_voice")),)))
    request = SpeechRequest(
        text="Good morning.", mode=Mode.CUSTOM_VOICE, sampling=Sampling(greedy=True), seed=1, max_frames=9
    )
    wanted = b"".join(event.pcm for event in engine.speak(request) if isinstance(event, AudioChunk))
    config = {"task_type": "custom_voice", "do_sample": False, "seed": 1, "max_frames": 9}
    assert same_sound((await speak_text(server.socket, "Good morning.", **config)).pcm, wanted)
    other = (await speak_text(server.socket, "Good evening.", **config)).pcm
    assert not same_sound(other, wanted)  # Another text yields other audio, so the comparison above can fail.


async def test_cancel_stops_audio_immediately_and_releases_the_slot(either: RunningServer) -> None:
    async with talk(either.socket, **LONG) as session:
        await session.send_text("Speak for a long time.")
        for _ in range(3):
            while not isinstance(await session.receive(), bytes):
                pass
        await session.send("context.cancel", played_ms=100)
        end = await session.receive_until("context.cancelled")
        made = either.frames_made()
        assert end["played_ms"] == 100
        assert end["sent_ms"] >= 240
        await session.send("ping", t=1)
        following = await session.receive()
        assert isinstance(following, dict)  # No more audio arrives.
        assert following == {"type": "pong", "t": 1}
        either.wait_until_idle()
        assert either.frames_made() - made <= FREED_FRAMES
        await session.send("session.config", **VOICE)
        await session.send_text("And once more.")
        assert (await session.receive_take()).end["type"] == "audio.done"


async def test_disconnect_releases_its_slot_within_a_few_frames(either: RunningServer) -> None:
    for _ in range(5):
        async with talk(either.socket, **LONG) as session:
            await session.send_text("Speak for a long time.")
            while not isinstance(await session.receive(), bytes):
                pass
            session.connection.transport.abort()
        assert either.frames_until_idle() <= FREED_FRAMES


@pytest.mark.parametrize(
    ("message", "code", "close"),
    [("{", "invalid_json", 1007), ("[1]", "invalid_json", 1007), (b"\0" * 10, "invalid_json", 1003)],
)
async def test_protocol_violation_closes_with_its_code(
    either: RunningServer, message: str | bytes, code: str, close: int
) -> None:
    async with talk(either.socket) as session:
        await session.connection.send(message)
        error = await session.receive()
        assert isinstance(error, dict)
        assert error["code"] == code
        assert await session.closed() == (close, code)


async def test_oversized_messages_are_refused(serving: Serving, folder_of: FolderOf) -> None:
    limits = Limits(max_config_bytes=20_000, max_message_bytes=5_000)
    with serving(folder_of("brief", "custom_voice"), limits=limits) as server:
        async with talk(server.socket, **VOICE) as session:
            await session.send("input.text", text="x" * 6_000)
            await session.send("input.done")
            await session.send("session.config", ref_audio="A" * 25_000)
            for expected in ("default", "default"):
                error = await session.receive_until("error")
                assert (error["code"], error["context_id"]) == ("message_too_large", expected)
            await session.send("session.config", **VOICE)
            await session.send_text("Good.")
            assert (await session.receive_take()).end["type"] == "audio.done"
            await session.connection.send("x" * 50_000)
            assert (await session.closed())[0] == 1009


@pytest.mark.parametrize("path", ["/v1/audio/speech/stream/", "/v1/nothing", "/tts/websocket/", "/v1/%ff%fe"])
async def test_wrong_socket_path_error_refers_to_the_openapi_document(either: RunningServer, path: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"ws://127.0.0.1:{either.port}{path}", subprotocols=[PROTOCOL])
    answer = refused.value.response
    said = json.loads(answer.body or b"")
    error = said.get("error", said)  # Under the paths of Cartesia's routes, an error has Cartesia's format.
    assert (answer.status_code, error.get("code", error.get("error_code"))) == (404, "unknown_route")
    assert "/openapi lists" in error["message"]


async def test_unknown_subprotocol_error_names_the_supported_one(either: RunningServer) -> None:
    async with connect(either.socket, subprotocols=[Subprotocol("nari.speech.v1")]) as connection:
        error = json.loads(await connection.recv())
        assert error["code"] == "subprotocol_required"
        assert PROTOCOL in error["message"]
        with pytest.raises(ConnectionClosed) as end:
            await connection.recv()
        assert end.value.rcvd is not None
        assert end.value.rcvd.code == 1002


async def test_compression_is_not_negotiated(either: RunningServer) -> None:
    async with connect(either.socket, subprotocols=[PROTOCOL]) as connection:
        assert list(connection.protocol.extensions) == []
