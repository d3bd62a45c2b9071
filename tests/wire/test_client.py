"""The Python client against the real server, and against servers that break off in the middle."""

from __future__ import annotations

import asyncio
import io
import json
import struct
import subprocess
import sys
import wave
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, get_type_hints

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from runtime.client import MAX_WAITING, Cancelled, Config, ConnectionLost, Speech, SpeechRefused, connect, say, wav
from runtime.request import Queued
from runtime.server.native.schema import SessionConfig
from tests.support.runtime_server import RunningServer
from tests.support.speech_client import PROTOCOL, same_sound, spoken

VOICE: Config = {"task_type": "custom_voice", "seed": 11, "max_frames": 12}
LONG: Config = {"task_type": "custom_voice", "seed": 11, "max_frames": 4000}


async def first_chunk(speech: Speech) -> bytes:
    return (await anext(speech)).pcm


def test_a_text_is_heard_in_chunks_that_join(server: RunningServer) -> None:
    async def hear() -> bytes:
        async with connect(server.http) as client:
            assert client.session["limits"]["max_contexts"] == 8
            speech = await client.speak("Good morning.", **VOICE)
            assert (speech.start, speech.done) == (None, None)
            sound = b""
            async for chunk in speech:
                assert chunk.first_sample == len(sound) // 2
                sound += chunk.pcm
            assert speech.start is not None
            assert (speech.start.mode, speech.start.seed) == ("custom_voice", 11)
            assert speech.done is not None
            assert speech.done.samples == len(sound) // 2
            assert speech.done.seed == 11
            assert speech.done.stop_reason in {"eos", "max_tokens"}
            assert speech.done.stats.frames == len(sound) // 3840
            assert speech.done.stats.ttfa_ms is not None
            assert [chunk async for chunk in speech] == []  # over is over
            return sound

    assert same_sound(asyncio.run(hear()), asyncio.run(spoken(server.socket, "Good morning.", **VOICE)).pcm)


def test_utterances_share_a_socket_and_sound_as_each_alone(server: RunningServer) -> None:
    texts = ["One.", "Two, and longer.", "Three is the last of them."]
    alone = [asyncio.run(spoken(server.socket, text, **VOICE)).pcm for text in texts]

    async def at_once() -> list[bytes]:
        async with connect(server.socket) as client:
            speeches = [await client.speak(text, **VOICE) for text in texts]
            return await asyncio.gather(*(speech.read() for speech in speeches))

    together = asyncio.run(at_once())
    assert all(same_sound(one, other) for one, other in zip(together, alone, strict=True))
    assert not same_sound(together[0], alone[1])  # the comparison can fail


def test_a_text_may_be_written_while_it_is_spoken(server: RunningServer) -> None:
    async def live() -> bytes:
        async with connect(server.http) as client:
            speech = await client.speak(**VOICE, split_granularity="none")
            for word in ("Good ", "mor", "ning."):
                await speech.write(word)
            await speech.finish()
            with pytest.raises(ValueError, match="finished"):
                await speech.write("Late.")
            return await speech.read()

    assert same_sound(asyncio.run(live()), asyncio.run(spoken(server.socket, "Good morning.", **VOICE)).pcm)


def test_a_flush_is_taken_in_the_middle_of_a_text(server: RunningServer) -> None:
    async def live() -> bytes:
        async with connect(server.http) as client:
            speech = await client.speak(**VOICE)
            await speech.write("Good morning. ")
            await speech.flush()
            await speech.write("And good night.")
            await speech.finish()
            return await speech.read()

    assert np.frombuffer(asyncio.run(live()), "<i2").any()


def test_cancel_silences_one_utterance_and_leaves_the_others(server: RunningServer) -> None:
    async def cancel() -> None:
        async with connect(server.http) as client:
            long, short = await client.speak("Without end.", **LONG), await client.speak("Short.", **VOICE)
            await first_chunk(long)
            await long.cancel(played_ms=40)
            assert [chunk async for chunk in long] == []
            with pytest.raises(ValueError, match="finished"):
                await long.write("More.")
            assert len(await short.read()) > 0
            end = await long.ended()
            assert isinstance(end, Cancelled)
            assert end.sent_ms >= 80
            assert end.played_ms == 40

    asyncio.run(cancel())
    server.wait_until_idle(5)


def test_a_block_that_is_left_early_cancels(server: RunningServer) -> None:
    async def leave() -> None:
        async with connect(server.http) as client:
            async with await client.speak("Without end.", **LONG) as speech:
                await first_chunk(speech)
            assert isinstance(await speech.ended(), Cancelled)
            await asyncio.to_thread(server.wait_until_idle, 5)

    asyncio.run(leave())


def test_who_waits_is_woken_by_a_cancel(server: RunningServer) -> None:
    async def wake() -> None:
        async with connect(server.http) as client:
            speech = await client.speak(**VOICE)  # live, and nothing is written
            waiting = asyncio.create_task(speech.read())
            await asyncio.sleep(0.05)
            await speech.cancel()
            assert await asyncio.wait_for(waiting, 5) == b""

    asyncio.run(wake())


def test_a_refusal_has_the_code_the_sentence_and_the_field(server: RunningServer) -> None:
    async def refused() -> None:
        async with connect(server.http) as client:
            bad, good = await client.speak("Hello.", voice="nobody", **VOICE), await client.speak("Hello.", **VOICE)
            with pytest.raises(SpeechRefused, match="no speaker of that name") as caught:
                await bad.read()
            assert (caught.value.code, caught.value.param, caught.value.retryable) == ("unknown_voice", "voice", False)
            assert await bad.ended() is caught.value
            with pytest.raises(SpeechRefused):
                await bad.write("More.")
            assert len(await good.read()) > 0

    asyncio.run(refused())


def test_a_queue_position_is_told_while_no_slot_is_free(server: RunningServer) -> None:
    async def crowd() -> list[Queued]:
        told: list[Queued] = []
        async with connect(server.http) as client:
            four = [await client.speak("Without end.", **LONG) for _ in range(4)]
            for one in four:
                await first_chunk(one)
            fifth = await client.speak("After you.", on_queue=told.append, **VOICE)
            while fifth.queued is None:
                await asyncio.gather(*(first_chunk(one) for one in four))
            for one in four:
                await one.cancel()
            assert len(await fifth.read()) > 0
            assert fifth.queued == told[-1]
        return told

    assert asyncio.run(crowd())[0].position == 0


def test_sound_that_nobody_reads_is_not_fetched(server: RunningServer) -> None:
    async def idle() -> None:
        async with connect(server.http) as client:
            speech = await client.speak("Without end.", task_type="custom_voice", seed=11, max_frames=400)
            other = await client.speak("Short.", **VOICE)
            await asyncio.sleep(1.5)
            assert speech._sound.qsize() <= MAX_WAITING
            assert speech.end is None  # its end lies behind the sound
            sounds = await asyncio.gather(speech.read(), other.read())  # and all of it is there
            assert [len(sound) // 2 for sound in sounds] == [one.done.samples for one in (speech, other) if one.done]

    asyncio.run(idle())


def test_one_word_is_enough_without_an_event_loop(server: RunningServer, ref_audio: str) -> None:
    sound = say(server.http, "Good morning.", **VOICE)
    assert same_sound(sound, asyncio.run(spoken(server.socket, "Good morning.", **VOICE)).pcm)
    with wave.open(io.BytesIO(wav(sound))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        assert file.readframes(file.getnframes()) == sound


def test_reference_audio_goes_as_the_bytes_of_a_file(server: RunningServer) -> None:
    file = wav((np.sin(np.arange(48_000) / 20) * 9000).astype("<i2").tobytes())
    assert len(say(server.http, "Good morning.", ref_audio=file, ref_text="Words.", seed=3, max_frames=5)) > 0


def test_every_field_of_the_protocol_can_be_given() -> None:
    elsewhere = {"type", "context_id", "instruct", "frames", "response_format", "max_new_tokens"}
    assert set(SessionConfig.model_fields) - elsewhere <= set(get_type_hints(Config))
    assert "instructions" in get_type_hints(Config)


def test_an_app_that_imports_it_loads_no_engine_and_no_server() -> None:
    code = (
        "import sys, runtime.client; print([n for n in ('torch', 'fastapi', 'pydantic', 'gradio') if n in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b"[]"


# --- servers that are not at their best

CREATED = {"type": "session.created", "protocol": PROTOCOL, "models": [], "limits": {}}
STARTED = {
    "type": "audio.start",
    "context_id": "u1",
    "channel": 1,
    "mode": "custom_voice",
    "model": "m",
    "voice": None,
    "seed": 1,
    "notes": [],
}


def frame(first_sample: int, samples: int) -> bytes:
    return struct.pack("<BBHIQ", 1, 1, 1, 0, first_sample) + bytes(2 * samples)


@asynccontextmanager
async def sick(talk: Callable[[ServerConnection], Awaitable[None]], **options: Any) -> AsyncIterator[str]:
    """A server of the protocol that does nothing but what it is told."""
    async with serve(talk, "127.0.0.1", 0, subprotocols=[PROTOCOL], **options) as server:  # type: ignore[list-item]
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def until_done(socket: ServerConnection) -> None:
    await socket.send(json.dumps(CREATED))
    async for message in socket:
        if json.loads(message)["type"] == "input.done":
            return


def hear(talk: Callable[[ServerConnection], Awaitable[None]]) -> tuple[bytes, SpeechRefused]:
    """What is heard of one utterance, and how it failed."""

    async def heard() -> tuple[bytes, SpeechRefused]:
        sound = b""
        async with sick(talk) as url, connect(url) as client:
            speech = await client.speak("Hello.")
            try:
                async for chunk in speech:
                    sound += chunk.pcm
            except SpeechRefused as error:
                return sound, error
        raise AssertionError("it did not fail")

    return asyncio.run(asyncio.wait_for(heard(), 10))


def test_a_lost_connection_ends_what_was_in_flight_after_what_was_heard() -> None:
    async def breaks_off(socket: ServerConnection) -> None:
        await until_done(socket)
        await socket.send(json.dumps(STARTED))
        await socket.send(frame(0, 100))
        socket.transport.abort()

    sound, error = hear(breaks_off)
    assert len(sound) == 200
    assert isinstance(error, ConnectionLost)
    assert (error.code, error.retryable) == ("runtime_unavailable", True)


def test_a_hole_in_the_sound_is_an_error_and_not_played() -> None:
    cancelled: list[str] = []

    async def skips(socket: ServerConnection) -> None:
        await until_done(socket)
        await socket.send(json.dumps(STARTED))
        for first in (0, 200, 100):
            await socket.send(frame(first, 100))
        async for message in socket:
            cancelled.append(json.loads(message)["type"])

    sound, error = hear(skips)
    assert len(sound) == 200
    assert error.code == "generation_failed"
    assert "context.cancel" in cancelled


def test_why_the_socket_closes_is_why_the_utterance_failed() -> None:
    async def shuts_down(socket: ServerConnection) -> None:
        await until_done(socket)
        problem = {"type": "error", "code": "draining", "message": "Bye.", "retryable": True, "context_id": None}
        await socket.send(json.dumps(problem))
        await socket.close(1001, "draining")

    _, error = hear(shuts_down)
    assert (error.code, str(error), error.retryable) == ("draining", "Bye.", True)


def test_a_session_that_is_refused_says_why() -> None:
    async def loads(socket: ServerConnection) -> None:
        await socket.send(json.dumps({"type": "error", "code": "loading", "message": "Soon.", "retryable": True}))

    async def opened() -> None:
        async with sick(loads) as url:
            with pytest.raises(SpeechRefused, match="Soon") as caught:
                async with connect(url):
                    pass
            assert caught.value.retryable

    asyncio.run(opened())


@pytest.mark.parametrize(
    ("body", "code"),
    [('{"error":{"code":"unauthorized","message":"No.","param":null}}', "unauthorized"), ("<html>", "unknown_route")],
)
def test_a_handshake_that_is_refused_says_why(body: str, code: str) -> None:
    keys: list[str | None] = []

    def no(connection: ServerConnection, request: Request) -> Response:
        keys.append(request.headers.get("Authorization"))
        return connection.respond(HTTPStatus.UNAUTHORIZED, body)

    async def opened() -> None:
        async with sick(until_done, process_request=no) as url:
            with pytest.raises(SpeechRefused) as caught:
                async with connect(url, api_key="secret"):
                    pass
            assert (caught.value.code, caught.value.param, caught.value.retryable) == (code, None, False)

    asyncio.run(opened())
    assert keys == ["Bearer secret"]


def test_an_address_where_nobody_is_is_a_lost_connection() -> None:
    with pytest.raises(ConnectionLost):
        say("http://127.0.0.1:9", "Hello.")
