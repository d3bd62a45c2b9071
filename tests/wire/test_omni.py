"""Tests for vLLM-Omni's API with the messages of its example clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests.support.runtime_server import RunningServer
from tests.support.speech_client import WAIT_S, same_sound

STREAM: dict[str, Any] = {"stream_audio": True, "response_format": "pcm"}
SHORT: dict[str, Any] = {"task_type": "CustomVoice", "seed": 11, "max_new_tokens": 13}
LONG: dict[str, Any] = {**SHORT, **STREAM, "max_new_tokens": 4000}


@dataclass(slots=True)
class Reply:
    """Messages and audio of one sentence from the server."""

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
    """Receive messages up to session.done, and return the sentences and that message."""
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


async def test_sentences_arrive_in_order_with_start_and_done(server: RunningServer) -> None:
    text = "Good morning. How are you? Fine"
    found, end = await speak(server, *text, split_granularity="sentence", **SHORT, **STREAM)
    assert [reply.start["sentence_text"] for reply in found] == ["Good morning.", "How are you?", "Fine"]
    assert [reply.done["sentence_index"] for reply in found] == [0, 1, 2]
    assert end["total_sentences"] == 3
    (alone,), _ = await speak(server, "How are you?", **SHORT, **STREAM)
    assert same_sound(b"".join(found[1].sound), b"".join(alone.sound))
    assert {reply.done["metrics"]["seed"] for reply in found} == {11}


async def said_until_done(connection: ClientConnection) -> tuple[bytes, list[dict[str, Any]]]:
    """Receive one utterance up to session.done.

    Returns:
        The audio, and the JSON messages in the order of arrival.
    """
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


async def test_text_streamed_by_token_is_one_request_with_early_audio(server: RunningServer) -> None:
    async with omni(server, **SHORT, streaming_mode="token_level", response_format="pcm") as connection:
        await send(connection, "input.text", text="Good morning, the kettle is on, and the ")
        start = await hear(connection)
        assert isinstance(start, dict)
        first = await hear(connection)  # At this point, the client has sent only the first words of the text.
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
    assert said[2]["total_sentences"] == 2  # As in vLLM-Omni, this is the number of messages with text.


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


async def test_empty_streamed_text_has_no_sentence_and_overlong_text_is_refused(server: RunningServer) -> None:
    assert (await live(server, "token_level", ("input.done", {})))[1][-1]["total_sentences"] == 0
    _, said = await live(server, "token_level", *[("input.text", {"text": "a " * 1000})] * 3, ("input.done", {}))
    errors = [message for message in said if message["type"] == "error"]
    assert [error["code"] for error in errors] == ["text_too_long"]
    assert said[-2]["error"] is True
    server.wait_until_idle()


@pytest.mark.slow
async def test_text_input_mode_commitment_splits_sentences_and_requires_a_language(server: RunningServer) -> None:
    config = {**SHORT, **STREAM, "text_input_mode": "commitment"}
    found, end = await speak(server, "Pi is 3.14. And", " then", **config, language="English")
    assert [reply.start["sentence_text"] for reply in found] == ["Pi is 3.14.", "And then"]
    assert end["total_sentences"] == 2

    async with omni(server, **config, language="Auto") as connection:
        error = await hear(connection)
    assert isinstance(error, dict)
    assert (error["type"], error["code"]) == ("error", "invalid_config")
