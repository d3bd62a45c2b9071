"""Tests for the native API over real sockets: modes, contexts, cancel and errors."""

from __future__ import annotations

import json
import struct
from collections import defaultdict
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


async def test_each_mode_generates_speech(server: RunningServer, ref_audio: str) -> None:
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


async def test_contexts_share_a_socket_with_labelled_frames(server: RunningServer) -> None:
    # The text of the second context arrives long before the audio of the first context ends.
    voice = {**VOICE, "max_frames": 80}
    alone = {name: (await speak_text(server.socket, f"This is {name}.", **voice)).pcm for name in "ab"}

    async def both() -> tuple[dict[str, bytes], list[str]]:
        pcm: dict[str, bytes] = defaultdict(bytes)
        order: list[str] = []
        channels: dict[int, str] = {}
        async with talk(server.socket, frames="labelled", **voice) as session:
            for name in "ab":
                await session.send_text(f"This is {name}.", context_id=name)
            ends = 0
            while ends < 2:
                message = await session.receive()
                if isinstance(message, bytes):
                    version, kind, channel, number, first = struct.unpack("<BBHIQ", message[:16])
                    name = channels[channel]
                    assert (version, kind, first) == (1, 1, len(pcm[name]) // 2)
                    assert number == order.count(name)
                    pcm[name] += message[16:]
                    order.append(name)
                elif message["type"] == "audio.start":
                    channels[message["channel"]] = message["context_id"]
                elif message["type"] == "audio.done":
                    assert message["total_bytes"] == len(pcm[message["context_id"]])
                    ends += 1
        return pcm, order

    pcm, order = await both()
    assert all(same_sound(pcm[name], alone[name]) for name in "ab")
    assert order != sorted(order)  # The server alternates between the two contexts.


async def test_cancel_stops_audio_immediately_and_releases_the_slot(either: RunningServer) -> None:
    async with talk(either.socket, **LONG) as session:
        await session.send_text("Speak for a long time.")
        for _ in range(3):
            await session.first_audio()
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
            await session.first_audio()
            session.connection.transport.abort()
        assert either.frames_until_idle() <= FREED_FRAMES


@pytest.mark.slow(
    "config1-Hello.-unsupported_language",
    "config3- \\n-empty_text",
    "config6-Hello.-missing_ref_text",
    "config8-Hello.-address_refused",
    "config9-Hello.-invalid_config",
    "config10-Hello.-invalid_config",
)
@pytest.mark.parametrize(
    ("config", "text", "code"),
    [
        ({"voice": "nobody"}, "Hello.", "unknown_voice"),
        ({"language": "klingon"}, "Hello.", "unsupported_language"),
        ({}, "", "empty_text"),
        ({}, " \n", "empty_text"),
        ({}, "x" * 5000, "text_too_long"),
        ({"task_type": "base"}, "Hello.", "missing_ref_audio"),
        ({"task_type": "base", "ref_audio": "REF"}, "Hello.", "missing_ref_text"),
        ({"task_type": "base", "ref_audio": "bm8gc291bmQ="}, "Hello.", "invalid_ref_audio"),
        ({"task_type": "base", "ref_audio": "http://localhost/x.wav"}, "Hello.", "address_refused"),
        ({"max_frames": 5000}, "Hello.", "invalid_config"),
        ({"response_format": "mp3"}, "Hello.", "invalid_config"),
        ({"model": "other"}, "Hello.", "model_not_found"),
    ],
)
async def test_invalid_request_gets_one_error_and_the_session_continues(
    server: RunningServer, ref_audio: str, config: dict[str, Any], text: str, code: str
) -> None:
    if config.get("ref_audio") == "REF":
        config = {**config, "ref_audio": ref_audio}

    async with talk(server.socket, **{"task_type": "custom_voice", **config}) as session:
        await session.send_text(text)
        error = await session.receive()
        assert isinstance(error, dict)
        assert (error["type"], error["code"], error["context_id"]) == ("error", code, "default")
        assert error["message"].endswith(".")
        await session.send("session.config", **VOICE)
        await session.send_text("Good.")
        assert (await session.receive_take()).end["type"] == "audio.done"


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


async def test_unknown_subprotocol_error_names_the_supported_subprotocol(either: RunningServer) -> None:
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


async def test_complete_sentence_is_spoken_before_more_text_follows(server: RunningServer) -> None:
    """The client waits for audio before it sends more text.

    Therefore the end of the sentence must be detected without the following text.
    """
    async with talk(server.socket) as session:
        await session.send("session.config", **{**VOICE, "max_frames": 40})
        await session.send("input.text", text="Let me check that for you. ")
        await session.first_audio()
        await session.send("input.text", text="It is sunny.")
        await session.send("input.done")
        end = (await session.receive_take()).end
    assert (end["type"], end["error"]) == ("audio.done", False)
