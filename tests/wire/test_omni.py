"""Tests of vLLM-Omni's API with the messages of its example clients."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import av
import numpy as np
import pytest
import soundfile
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from runtime.settings import EngineSettings, Limits
from tests.conftest import FolderOf
from tests.support.runtime_server import FREED_FRAMES, RunningServer, running_server
from tests.support.speech_client import WAIT_S, same_sound, spoken
from tests.wire.conftest import Serving

STREAM: dict[str, Any] = {"stream_audio": True, "response_format": "pcm"}
SHORT: dict[str, Any] = {"task_type": "CustomVoice", "seed": 11, "max_new_tokens": 13}
LONG: dict[str, Any] = {**SHORT, **STREAM, "max_new_tokens": 4000}


@dataclass(slots=True)
class Reply:
    """What came for one sentence."""

    start: dict[str, Any]
    sound: list[bytes] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    done: dict[str, Any] = field(default_factory=dict)


async def send(connection: ClientConnection, kind: str, **fields: Any) -> None:
    await connection.send(json.dumps({"type": kind, **fields}))


async def hear(connection: ClientConnection) -> dict[str, Any] | bytes:
    message = await asyncio.wait_for(connection.recv(), WAIT_S)
    return json.loads(message) if isinstance(message, str) else message


async def replies(connection: ClientConnection) -> tuple[list[Reply], dict[str, Any]]:
    """Read as that server's example clients do: sound belongs to the last audio.start; session.done is the end."""
    found: list[Reply] = []
    while True:
        message = await hear(connection)
        if isinstance(message, bytes):
            found[-1].sound.append(message)
        elif message["type"] == "audio.start":
            found.append(Reply(message))
        elif message["type"] == "audio.done":
            found[-1].done = message
        elif message["type"] == "session.done":
            return found, message
        else:
            assert message["type"] == "error", message
            found[-1].errors.append(message)


@asynccontextmanager
async def omni(server: RunningServer, **config: Any) -> AsyncIterator[ClientConnection]:
    async with connect(server.socket, max_size=None) as connection:
        await send(connection, "session.config", **config)
        yield connection


async def say(connection: ClientConnection, *texts: str) -> None:
    for text in texts:
        await send(connection, "input.text", text=text)
    await send(connection, "input.done")


async def speak(server: RunningServer, *texts: str, **config: Any) -> tuple[list[Reply], dict[str, Any]]:
    async with omni(server, **config) as connection:
        await say(connection, *texts)
        return await replies(connection)


async def test_streamed_audio_equals_that_of_the_native_protocol(server: RunningServer) -> None:
    native = await spoken(server.socket, "Good morning.", task_type="custom_voice", seed=11, max_frames=12)
    (reply,), end = await speak(server, "Good ", "morning.", **SHORT, **STREAM)
    pcm = b"".join(reply.sound)
    assert same_sound(pcm, native.pcm)
    assert reply.start["sentence_text"] == "Good morning."
    assert reply.done["total_bytes"] == len(pcm)
    assert reply.done["metrics"]["frames"] * 1920 * 2 == len(pcm)
    assert end == {"type": "session.done", "utterance_index": 0, "total_sentences": 1}


@pytest.mark.slow
@pytest.mark.parametrize("response_format", ["wav", "pcm", "flac", "mp3", "opus", "aac"])
async def test_sentences_are_readable_files(server: RunningServer, response_format: str) -> None:
    (streamed,), _ = await speak(server, "Good morning.", **SHORT, **STREAM)
    (reply,), _ = await speak(server, "Good morning.", **SHORT, response_format=response_format)
    (data,) = reply.sound
    assert reply.done["total_bytes"] == len(data)
    wanted = b"".join(streamed.sound)
    if response_format == "pcm":
        assert same_sound(data, wanted)
    elif response_format in {"wav", "flac"}:
        samples, rate = soundfile.read(io.BytesIO(data), dtype="int16")
        assert rate == 24_000
        assert same_sound(samples.astype("<i2").tobytes(), wanted)
    else:
        with av.open(io.BytesIO(data)) as container:
            seconds = sum(frame.samples / frame.sample_rate for frame in container.decode(audio=0))
        assert abs(seconds - len(wanted) / 48_000) < 0.12


async def test_sentences_arrive_in_order_with_start_and_done(server: RunningServer) -> None:
    text = "Good morning. How are you? Fine"
    found, end = await speak(server, *text, split_granularity="sentence", **SHORT, **STREAM)
    assert [reply.start["sentence_text"] for reply in found] == ["Good morning.", "How are you?", "Fine"]
    assert [reply.done["sentence_index"] for reply in found] == [0, 1, 2]
    assert end["total_sentences"] == 3
    (alone,), _ = await speak(server, "How are you?", **SHORT, **STREAM)
    assert same_sound(b"".join(found[1].sound), b"".join(alone.sound))
    assert {reply.done["metrics"]["seed"] for reply in found} == {11}


@pytest.mark.slow
async def test_sentences_arrive_in_order_with_a_single_slot(folder_of: FolderOf) -> None:
    engine = EngineSettings(threads=1, max_slots=1, max_waiting=0)
    with running_server(folder_of("brief", "custom_voice"), engine=engine) as server:
        text = "Good morning. How are you? Fine. Good. Bye."
        found, end = await speak(server, text, split_granularity="sentence", **SHORT, **STREAM)
    assert [reply.done["error"] for reply in found] == [False] * 5
    assert end["total_sentences"] == 5


@pytest.mark.slow
async def test_socket_serves_consecutive_utterances(server: RunningServer, ref_audio: str) -> None:
    async with omni(server, **SHORT, **STREAM) as connection:
        await say(connection, "One.")
        assert (await replies(connection))[1]["utterance_index"] == 0
        clone = {"ref_audio": ref_audio, "ref_text": "Some words.", "max_new_tokens": 6}
        await send(connection, "session.config", **clone, **STREAM)
        for index in (1, 2):
            await say(connection, "Two.")
            (reply,), end = await replies(connection)
            assert end["utterance_index"] == index
            assert reply.errors == []
            assert reply.sound
        await send(connection, "session.close")
        with pytest.raises(ConnectionClosed) as end_of_it:
            await connection.recv()
        assert end_of_it.value.rcvd is not None
        assert end_of_it.value.rcvd.code == 1000


async def test_errors_are_sent_between_start_and_done(server: RunningServer) -> None:
    config = {**SHORT, **STREAM, "language": "klingon"}
    (reply,), end = await speak(server, "Hello.", **config)
    (error,) = reply.errors
    assert error["message"].startswith("Generation failed for utterance 0, sentence 0: This checkpoint does not know")
    assert error["code"] == "unsupported_language"
    assert reply.done["error"] is True
    assert end["total_sentences"] == 1


async def test_disconnect_while_speaking_releases_the_slot_within_two_frames(either: RunningServer) -> None:
    async def hang_up(**config: Any) -> None:
        async with omni(either, **config) as connection:
            await say(connection, "Speak for a long time. And then on.")
            await hear(connection)
            if config.get("stream_audio"):
                while not isinstance(await hear(connection), bytes):
                    pass
            else:
                while not either.load()["active"]:  # noqa: ASYNC110  a number of the either, there is nothing to await
                    await asyncio.sleep(0.01)
            connection.transport.abort()

    for config in (LONG, {**LONG, "split_granularity": "sentence"}, {**SHORT, "max_new_tokens": 4000}):
        await hang_up(**config)
        assert either.frames_until_idle() <= FREED_FRAMES


async def test_client_messages_are_processed_during_speech(server: RunningServer) -> None:
    async with omni(server, **LONG) as connection:
        await say(connection, "Speak for a long time.")
        while not isinstance(await hear(connection), bytes):
            pass
        await send(connection, "nonsense")
        while (message := await hear(connection)) and isinstance(message, bytes):
            pass
        assert isinstance(message, dict)
        assert (message["message"], message["code"]) == ("Unknown message type: nonsense", "invalid_config")
        while not isinstance(await hear(connection), bytes):  # The speech continues.
            pass
        connection.transport.abort()
    server.wait_until_idle()


@pytest.mark.slow
async def test_invalid_first_message_and_silent_client_are_closed_with_a_reason(
    serving: Serving, folder_of: FolderOf
) -> None:
    async def ending(server: RunningServer, *messages: str) -> tuple[list[str], int | None]:
        texts = []
        async with connect(server.socket) as connection:
            for message in messages:
                await connection.send(message)
            async for reply in connection:  # The loop ends without an exception, because the close is in order.
                texts.append(json.loads(reply)["message"])
            return texts, connection.close_code

    with serving(folder_of("brief", "custom_voice"), limits=Limits(config_s=0.3)) as server:
        assert await ending(server) == (["Timeout waiting for session.config"], 1000)
    with serving(folder_of("brief", "custom_voice"), limits=Limits(idle_s=1)) as server:
        for message, told in (
            ('{"type":"session.config"}', "Idle timeout: no message received"),
            ('{"type":"input.done"}', "Expected session.config, got: input.done"),
            ("nonsense", "Invalid JSON message"),
        ):
            assert await ending(server, message) == ([told], 1000)


async def test_reply_is_not_silent(server: RunningServer) -> None:
    (reply,), _ = await speak(server, "Good morning.", **SHORT, **STREAM)
    assert np.frombuffer(b"".join(reply.sound), "<i2").any()


async def said_until_done(connection: ClientConnection) -> tuple[bytes, list[dict[str, Any]]]:
    """All sound of an utterance, and its messages in order."""
    pcm, said = b"", []
    while not said or said[-1]["type"] != "session.done":
        message = await hear(connection)
        if isinstance(message, bytes):
            pcm += message
        else:
            said.append(message)
    return pcm, said


async def live(
    server: RunningServer, mode: str, *messages: tuple[str, dict[str, Any]]
) -> tuple[bytes, list[dict[str, Any]]]:
    async with omni(server, **SHORT, streaming_mode=mode, response_format="pcm") as connection:
        for kind, fields in messages:
            await send(connection, kind, **fields)
        return await said_until_done(connection)


async def test_token_level_text_is_one_request_with_early_audio(server: RunningServer) -> None:
    async with omni(server, **SHORT, streaming_mode="token_level", response_format="pcm") as connection:
        await send(connection, "input.text", text="Good morning, the kettle is on, and the ")
        start = await hear(connection)
        assert isinstance(start, dict)
        first = await hear(connection)  # Only the first words of the text were sent.
        assert isinstance(first, bytes)
        await send(connection, "input.text", text="boat comes back.")
        await send(connection, "input.done")
        pcm, said = await said_until_done(connection)
        pcm, said = first + pcm, [start, *said]
    config = {**SHORT, **STREAM, "non_streaming_mode": False}
    text = "Good morning, the kettle is on, and the boat comes back."
    (whole,), _ = await speak(server, text, **config)
    assert same_sound(pcm, b"".join(whole.sound))
    assert [message["type"] for message in said] == ["audio.start", "audio.done", "session.done"]
    assert (said[0]["sample_rate"], said[0]["channels"]) == (24_000, 1)
    assert said[0]["sentence_text"] == "Good morning, the kettle is on, and the "
    assert (said[1]["sentence_index"], said[1]["total_bytes"], said[1]["error"]) == (0, len(pcm), False)
    assert said[2]["total_sentences"] == 2  # vLLM-Omni counts the pieces of a text.


async def test_sentence_commits_belong_to_one_request(server: RunningServer) -> None:
    pcm, said = await live(
        server,
        "sentence_commit",
        ("input.commit", {}),
        ("input.text", {"text": "First "}),
        ("input.text", {"text": "one."}),
        ("input.commit", {"commit_id": "first"}),
        ("input.commit", {"commit_id": 5}),
        ("input.text", {"text": " Second one."}),
        ("input.done", {}),
    )
    kinds = [message["type"] for message in said]
    assert sorted(kinds[:-2]) == ["audio.start", "error", "error", "input.committed", "input.committed"]
    assert kinds[-2:] == ["audio.done", "session.done"]
    committed = [message for message in said if message["type"] == "input.committed"]
    assert committed == [
        {"type": "input.committed", "commit_id": "first", "sentence_index": 0, "chars_committed": 10},
        {"type": "input.committed", "commit_id": None, "sentence_index": 1, "chars_committed": 12},
    ]
    messages = [message["message"] for message in said if message["type"] == "error"]
    assert messages[0] == "input.commit requires buffered text"
    assert messages[1].startswith("Invalid input.commit: ")
    assert (said[-2]["total_bytes"], said[-1]["total_sentences"]) == (len(pcm), 2)
    assert pcm


async def test_empty_and_overlong_streamed_texts(server: RunningServer) -> None:
    assert (await live(server, "token_level", ("input.done", {})))[1][-1]["total_sentences"] == 0
    _, said = await live(server, "token_level", *[("input.text", {"text": "a " * 1000})] * 3, ("input.done", {}))
    errors = [message for message in said if message["type"] == "error"]
    assert [error["code"] for error in errors] == ["text_too_long"]
    assert said[-2]["error"] is True
    server.wait_until_idle()


@pytest.mark.slow
async def test_commitment_mode_splits_at_sentence_ends_and_requires_a_language(server: RunningServer) -> None:
    config = {**SHORT, **STREAM, "text_input_mode": "commitment"}
    found, end = await speak(server, "Pi is 3.14. And", " then", **config, language="English")
    assert [reply.start["sentence_text"] for reply in found] == ["Pi is 3.14.", "And then"]
    assert end["total_sentences"] == 2

    async with omni(server, **config, language="Auto") as connection:
        error = await hear(connection)
    assert isinstance(error, dict)
    assert (error["type"], error["code"]) == ("error", "invalid_config")


async def test_disconnect_during_streamed_text_releases_its_slot(server: RunningServer) -> None:
    async with omni(server, **{**LONG, "streaming_mode": "token_level"}) as connection:
        await send(connection, "input.text", text="Speak for a long time, and then on and ")
        while not isinstance(await hear(connection), bytes):
            pass
        connection.transport.abort()
    server.wait_until_idle()
