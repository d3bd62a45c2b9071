"""Tests for the Python client, with the real server and with servers that send faults."""

from __future__ import annotations

import asyncio
import io
import json
import os
import struct
import subprocess
import sys
import threading
import wave
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import fields
from http import HTTPStatus
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

import voicewright.wire
from runtime.request import SAMPLE_RATE, RequestStats
from runtime.server.descriptions import Metrics
from runtime.server.native.binary_frame import HEADER
from runtime.server.native.schema import SessionConfig
from tests.support.runtime_server import RunningServer
from tests.support.speech_client import PROTOCOL, same_sound, speak_text
from voicewright import (
    MAX_WAITING,
    Cancelled,
    Config,
    ConnectionLost,
    Queued,
    Speech,
    SpeechRefused,
    SpeechTimeout,
    Stats,
    VoicewrightError,
    connect,
    say,
    sync,
    wav,
)

CLIENT = Path(__file__).resolve().parents[2] / "clients" / "python"
VOICE: Config = {"task_type": "custom_voice", "seed": 11, "max_frames": 12}
LONG: Config = {"task_type": "custom_voice", "seed": 11, "max_frames": 4000}


async def first_chunk(speech: Speech) -> bytes:
    return (await anext(speech)).pcm


async def test_audio_of_a_text_is_received_in_contiguous_chunks(server: RunningServer) -> None:
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
        assert [chunk async for chunk in speech] == []  # A speech that has finished yields no more chunks.
        assert same_sound(sound, (await speak_text(server.socket, "Good morning.", **VOICE)).pcm)


async def test_text_may_be_appended_during_speech(server: RunningServer) -> None:
    async with connect(server.http) as client:
        speech = await client.speak(**VOICE, split_granularity="none")
        for word in ("Good ", "mor", "ning."):
            await speech.write(word)
        await speech.finish()
        with pytest.raises(ValueError, match="finished"):
            await speech.write("Late.")
        assert same_sound(await speech.read(), (await speak_text(server.socket, "Good morning.", **VOICE)).pcm)


async def test_flush_in_the_middle_of_a_text_is_accepted(server: RunningServer) -> None:
    async def live() -> bytes:
        async with connect(server.http) as client:
            speech = await client.speak(**VOICE)
            await speech.write("Good morning. ")
            await speech.flush()
            await speech.write("And good night.")
            await speech.finish()
            return await speech.read()

    assert np.frombuffer(await live(), "<i2").any()


async def test_cancel_ends_one_utterance_and_keeps_the_other_utterances(server: RunningServer) -> None:
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
    server.wait_until_idle()


async def test_abandoned_and_refused_utterances_do_not_count_towards_the_limit(
    server: RunningServer,
) -> None:
    async with asyncio.timeout(60):
        async with connect(server.http) as client:
            # The loop runs more often than the number of requests that the server runs at the same time.
            for _ in range(12):
                async with client.speak(**VOICE) as left:
                    pass
                assert await left.ended() == Cancelled(0.0, None)
            for _ in range(12):
                with pytest.raises(SpeechRefused):
                    await client.speak("a\0b", **VOICE).read()
            assert len(await client.speak("Short.", **VOICE).read()) > 0


async def test_leaving_the_context_manager_early_cancels_the_utterance(server: RunningServer) -> None:
    async with connect(server.http) as client:
        async with client.speak("Without end.", **LONG) as speech:
            await first_chunk(speech)
        assert isinstance(await speech.ended(), Cancelled)
        await asyncio.to_thread(server.wait_until_idle)


async def test_cancel_wakes_a_waiting_reader(server: RunningServer) -> None:
    async with connect(server.http) as client:
        speech = await client.speak(**VOICE)  # The client streams text input but sends no text.
        waiting = asyncio.create_task(speech.read())
        await asyncio.sleep(0.05)
        await speech.cancel()
        assert await asyncio.wait_for(waiting, 60) == b""


async def test_refusal_error_has_its_code_sentence_and_field(server: RunningServer) -> None:
    async with connect(server.http) as client:
        bad, good = await client.speak("Hello.", voice="nobody", **VOICE), await client.speak("Hello.", **VOICE)
        with pytest.raises(SpeechRefused, match="no voice of that name") as caught:
            await bad.read()
        assert (caught.value.code, caught.value.param, caught.value.retryable) == ("unknown_voice", "voice", False)
        assert await bad.ended() is caught.value
        with pytest.raises(SpeechRefused):
            await bad.write("More.")
        assert len(await good.read()) > 0


@pytest.mark.slow
async def test_queue_position_is_reported_while_no_slot_is_free(server: RunningServer) -> None:
    queue_events: list[Queued] = []
    async with connect(server.http) as client:
        four = [await client.speak("Without end.", **LONG) for _ in range(4)]
        for speech in four:
            await first_chunk(speech)
        fifth = await client.speak("After you.", on_queue=queue_events.append, **VOICE)
        while fifth.queued is None:
            await asyncio.gather(*(first_chunk(speech) for speech in four))
        for speech in four:
            await speech.cancel()
        assert len(await fifth.read()) > 0
        assert fifth.queued == queue_events[-1]
    assert queue_events[0].position == 0


@pytest.mark.slow
async def test_unread_audio_is_not_fetched(server: RunningServer) -> None:
    async with connect(server.http) as client:
        speech = await client.speak("Without end.", task_type="custom_voice", seed=11, max_frames=400)
        other = await client.speak("Short.", **VOICE)
        await asyncio.sleep(1.5)
        assert speech._sound.qsize() <= MAX_WAITING
        assert speech.end is None  # The end event follows the audio, which has not been read yet.
        sounds = await asyncio.gather(speech.read(), other.read())  # No audio is lost while the client does not read.
        assert [len(sound) // 2 for sound in sounds] == [
            each_speech.done.samples for each_speech in (speech, other) if each_speech.done
        ]


async def test_blocking_say_works_without_an_event_loop(server: RunningServer, ref_audio: str) -> None:
    sound = say(server.http, "Good morning.", **VOICE)
    assert same_sound(sound, (await speak_text(server.socket, "Good morning.", **VOICE)).pcm)
    with wave.open(io.BytesIO(wav(sound))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        assert file.readframes(file.getnframes()) == sound


@pytest.mark.slow
async def test_complete_text_is_spoken_unfiltered_by_default(server: RunningServer) -> None:
    text = "The **kettle** is `on`."
    unfiltered, filtered = [
        (await speak_text(server.socket, text, **VOICE, text_filter=name)).pcm for name in ("none", "markdown")
    ]
    assert unfiltered != filtered
    assert same_sound(say(server.http, text, **VOICE), unfiltered)
    assert same_sound(say(server.http, text, **VOICE, text_filter="markdown"), filtered)


def test_reference_audio_is_sent_as_file_bytes(server: RunningServer) -> None:
    file = wav((np.sin(np.arange(48_000) / 20) * 9000).astype("<i2").tobytes())
    assert len(say(server.http, "Good morning.", ref_audio=file, ref_text="Words.", seed=3, max_frames=5)) > 0


def test_every_protocol_field_can_be_set() -> None:
    elsewhere = {"type", "context_id", "instruct", "frames", "response_format", "max_new_tokens"}
    assert set(SessionConfig.model_fields) - elsewhere <= set(get_type_hints(Config))
    assert "instructions" in get_type_hints(Config)


def test_client_and_runtime_agree_on_the_wire_format() -> None:
    assert (voicewright.wire.HEADER.format, voicewright.wire.PROTOCOL) == (HEADER.format, PROTOCOL)
    assert voicewright.wire.SAMPLE_RATE == SAMPLE_RATE
    assert {field.name for field in fields(Stats)} == set(get_type_hints(Metrics))
    assert {field.name for field in fields(RequestStats)} <= {field.name for field in fields(Stats)}


@pytest.mark.parametrize(
    "url",
    ["http://h:1/base", "ws://h:1/base/", "http://h:1/base/v1", "ws://h:1/base/v1/audio/speech/stream"],
)
def test_client_accepts_the_url_of_the_server_or_of_its_route(url: str) -> None:
    assert voicewright.wire.base_address(url) == "http://h:1/base"
    assert voicewright.wire.socket_address(url) == "ws://h:1/base/v1/audio/speech/stream"
    assert voicewright.wire.socket_address("https://h/?ticket=once") == "wss://h/v1/audio/speech/stream?ticket=once"


def test_importing_the_client_loads_no_large_library_and_changes_no_setting() -> None:
    code = """
import os, sys, time
before, begin = dict(os.environ), time.process_time()
import voicewright, voicewright.sync
took = time.process_time() - begin
heavy = {"torch", "numpy", "fastapi", "starlette", "gradio", "pydantic", "runtime", "studio", "httpx"}
print(sorted(heavy & set(sys.modules)), dict(os.environ) == before, took < 1.5)  # 0.15 s on an idle machine
"""
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(CLIENT)},
    )
    assert ended.stdout.strip() == "[] True True"


def test_exported_names_exist_and_are_typed() -> None:
    assert all(hasattr(voicewright, name) for name in voicewright.__all__)
    assert (CLIENT / "voicewright" / "py.typed").exists()


# --- Tests of other interfaces of the client library.


async def test_synchronous_client_receives_the_same_audio(server: RunningServer) -> None:
    alone = (await speak_text(server.socket, "Good morning.", **VOICE)).pcm
    with sync.connect(server.http) as client:
        assert client.session["limits"]["max_contexts"] == 8
        with client.speak("Good morning.", **VOICE) as speech:
            sound = b"".join(chunk.pcm for chunk in speech)
        assert same_sound(sound, alone)
        assert speech.start is not None
        assert speech.done is not None
        assert (speech.start.seed, speech.done.samples) == (11, len(sound) // 2)
        live = client.speak(**VOICE, split_granularity="none")
        live.write("Good ")
        live.write("morning.")
        live.finish()
        with pytest.raises(ValueError, match="finished"):
            live.write("Late.")
        assert same_sound(live.read(), alone)


def test_synchronous_client_cancels_early_exits_and_raises_refusals(server: RunningServer) -> None:
    with sync.connect(server.http) as client:
        with client.speak("Without end.", **LONG) as speech:
            next(speech)
        assert isinstance(speech.ended(), Cancelled)
        with pytest.raises(SpeechRefused) as refused:
            client.speak("Hello.", voice="nobody", **VOICE).read()
        assert refused.value.code == "unknown_voice"
    server.wait_until_idle()
    assert "voicewright-client" not in {thread.name for thread in threading.enumerate()}


async def test_blocking_say_works_inside_a_running_event_loop(server: RunningServer) -> None:
    async def notebook() -> bytes:
        return say(server.http, "Good morning.", **VOICE)

    # The server has its own event loop, so the event loop of the notebook may block.
    assert same_sound(await notebook(), (await speak_text(server.socket, "Good morning.", **VOICE)).pcm)


async def test_utterance_starts_at_its_first_use(server: RunningServer) -> None:
    async with connect(server.http) as client:
        client.speak("Nobody wants to hear this.", **LONG)
        result = b"".join([chunk.pcm async for chunk in client.speak("Good morning.", **VOICE)])
    assert same_sound(result, (await speak_text(server.socket, "Good morning.", **VOICE)).pcm)
    server.wait_until_idle()


def test_voices_can_be_stored_used_changed_exported_and_deleted(server: RunningServer) -> None:
    recording = wav((np.sin(np.arange(48_000) / 20) * 9000).astype("<i2").tobytes())
    with sync.connect(server.http) as client:
        checked = client.check_voice(recording, ref_text="A word or two.")
        assert checked["usable"] is True
        assert checked["seconds"] == pytest.approx(2, abs=0.1)
        assert "base" in {mode for model in client.models() for mode in model["modes"]}
        assert client.voices("grace of the client") == []
        kept = client.add_voice("Grace of the client", recording, consent="She said yes.")
        try:
            assert [voice["id"] for voice in client.voices("grace of the client")] == [kept["id"]]
            with pytest.raises(SpeechRefused) as taken:
                client.add_voice("Grace of the client", recording, consent="She said yes.")
            assert (taken.value.code, taken.value.param) == ("voice_name_taken", "name")
            assert client.speak("Hello.", task_type="base", voice="Grace of the client", max_frames=3).read()
            changed = client.edit_voice("Grace of the client", description="Calm.", tags=["low"])
            assert (changed["description"], changed["tags"]) == ("Calm.", ["low"])
            assert client.voice(kept["id"])["description"] == "Calm."
            assert client.voice_audio(kept["id"])[:4] == b"RIFF"
            file = client.export_voice(kept["id"])
            client.delete_voice(kept["id"])
            again = client.import_voice(file, name="Grace / of the client?")
            kept = client.voice(again["id"])
            assert (kept["name"], kept["tags"], kept["consent"]) == ("Grace / of the client?", ["low"], "She said yes.")
        finally:
            client.delete_voice(kept["id"])
        with pytest.raises(SpeechRefused, match=r"\w") as gone:
            client.voice("nobody?")
        assert (gone.value.code, len(client.ticket()) > 10) == ("voice_not_found", True)


def test_synchronous_classes_have_every_method_of_the_async_classes() -> None:
    for one, twin in ((voicewright.Client, sync.Client), (voicewright.Speech, sync.Speech)):
        public = {name for name in dir(one) if not name.startswith(("_", "on_")) and callable(getattr(one, name))}
        assert public - {"read", "keep_open"} <= set(dir(twin))


# --- Tests of lost connections and of servers that violate the protocol.

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
async def faulty_server(talk: Callable[[ServerConnection], Awaitable[None]], **options: Any) -> AsyncIterator[str]:
    """Run a WebSocket server that sends only what `talk` sends, and yield its URL."""
    async with serve(talk, "127.0.0.1", 0, subprotocols=[PROTOCOL], **options) as server:  # type: ignore[list-item]
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def until_done(socket: ServerConnection) -> None:
    await socket.send(json.dumps(CREATED))
    async for message in socket:
        if json.loads(message)["type"] == "input.done":
            return


async def hear(talk: Callable[[ServerConnection], Awaitable[None]]) -> tuple[bytes, VoicewrightError]:
    """Receive an utterance from a faulty server, and return its audio and its error."""

    async def heard() -> tuple[bytes, VoicewrightError]:
        sound = b""
        async with faulty_server(talk) as url, connect(url) as client:
            speech = await client.speak("Hello.")
            try:
                async for chunk in speech:
                    sound += chunk.pcm
            except VoicewrightError as error:
                return sound, error
        raise AssertionError("it did not fail")

    return await asyncio.wait_for(heard(), 60)


async def test_lost_connection_fails_running_utterances_after_their_received_audio() -> None:
    async def breaks_off(socket: ServerConnection) -> None:
        await until_done(socket)
        await socket.send(json.dumps(STARTED))
        await socket.send(frame(0, 100))
        socket.transport.abort()

    sound, error = await hear(breaks_off)
    assert len(sound) == 200
    assert isinstance(error, ConnectionLost)
    assert (error.code, error.retryable) == ("runtime_unavailable", True)


async def test_missing_samples_are_an_error_and_not_played() -> None:
    cancelled: list[str] = []

    async def skips(socket: ServerConnection) -> None:
        await until_done(socket)
        await socket.send(json.dumps(STARTED))
        for first in (0, 200, 100):
            await socket.send(frame(first, 100))
        async for message in socket:
            cancelled.append(json.loads(message)["type"])

    sound, error = await hear(skips)
    assert len(sound) == 200
    assert error.code == "generation_failed"
    assert "context.cancel" in cancelled


async def test_audio_in_flight_at_a_cancel_is_not_reported_as_missing() -> None:
    async def talks_on(socket: ServerConnection) -> None:
        await until_done(socket)
        await socket.send(json.dumps(STARTED))
        await socket.send(frame(0, 100))
        async for message in socket:
            if json.loads(message)["type"] == "context.cancel":
                for first in (100, 200, 300):
                    await socket.send(frame(first, 100))
                end = {"context_id": "u1", "sent_ms": 16.0, "played_ms": None}
                await socket.send(json.dumps({"type": "context.cancelled", **end}))

    async with asyncio.timeout(60):
        async with faulty_server(talks_on) as url, connect(url) as client:
            speech = await client.speak("Hello.")
            await first_chunk(speech)
            await speech.cancel()
            assert await speech.ended() == Cancelled(16.0, None)


async def test_close_reason_of_the_socket_is_the_error_of_the_utterance() -> None:
    async def shuts_down(socket: ServerConnection) -> None:
        await until_done(socket)
        problem = {"type": "error", "code": "draining", "message": "Bye.", "retryable": True, "context_id": None}
        await socket.send(json.dumps(problem))
        await socket.close(1001, "draining")

    _, error = await hear(shuts_down)
    assert (error.code, str(error), error.retryable) == ("draining", "Bye.", True)


async def test_notes_and_statistics_of_the_runtime_are_passed_to_the_caller() -> None:
    async def talk(socket: ServerConnection) -> None:
        await until_done(socket)
        await socket.send(json.dumps(STARTED))
        await socket.send(json.dumps({"type": "session.expiring", "remaining_s": 60.0}))
        done = {"stop_reason": "short", "seed": 1, "total_samples": 0, "metrics": {}, "notes": ["Words are missing."]}
        await socket.send(json.dumps({"type": "audio.done", "context_id": "u1", "channel": 1, **done}))
        refusal = {"code": "overloaded", "message": "Full.", "param": None, "retryable": True, "facts": {"slots": 2}}
        more = {"context_id": "u2", "partial_audio": True, "retry_after_s": 1.5}
        await socket.send(json.dumps({"type": "error", **refusal, **more}))
        await socket.wait_closed()

    async with asyncio.timeout(60):
        async with faulty_server(talk) as url, connect(url) as client:
            assert client.expires_in_s is None
            first, second = await client.speak("One."), await client.speak("Two.")
            assert await first.read() == b""
            assert first.done is not None
            assert first.done.notes == ("Words are missing.",)
            assert client.expires_in_s == 60.0
            with pytest.raises(SpeechRefused) as refused:
                await second.read()
            error = refused.value
            assert (error.facts, error.retry_after_s, error.partial_audio) == ({"slots": 2}, 1.5, True)


async def test_refused_session_error_contains_the_reason() -> None:
    async def loads(socket: ServerConnection) -> None:
        await socket.send(json.dumps({"type": "error", "code": "loading", "message": "Soon.", "retryable": True}))

    async with faulty_server(loads) as url:
        with pytest.raises(SpeechRefused, match="Soon") as caught:
            async with connect(url):
                pass
        assert caught.value.retryable


@pytest.mark.parametrize(
    ("body", "code"),
    [('{"error":{"code":"unauthorized","message":"No.","param":null}}', "unauthorized"), ("<html>", "unknown_route")],
)
async def test_refused_handshake_error_contains_the_reason(body: str, code: str) -> None:
    keys: list[str | None] = []

    def no(connection: ServerConnection, request: Request) -> Response:
        keys.append(request.headers.get("Authorization"))
        return connection.respond(HTTPStatus.UNAUTHORIZED, body)

    async with faulty_server(until_done, process_request=no) as url:
        with pytest.raises(SpeechRefused) as caught:
            async with connect(url, api_key="secret"):
                pass
        assert (caught.value.code, caught.value.param, caught.value.retryable) == (code, None, False)
    assert keys == ["Bearer secret"]


def test_unreachable_address_is_a_lost_connection() -> None:
    with pytest.raises(ConnectionLost):
        say("http://127.0.0.1:9", "Hello.")


def test_connection_lost_is_not_a_subclass_of_speech_refused() -> None:
    assert not issubclass(ConnectionLost, SpeechRefused)
    assert issubclass(ConnectionLost, ConnectionError)
    assert issubclass(SpeechTimeout, TimeoutError)


async def test_closed_connection_starts_no_utterance() -> None:
    async def leaves(socket: ServerConnection) -> None:
        await socket.send(json.dumps(CREATED))
        await socket.close()

    async with asyncio.timeout(60):
        async with faulty_server(leaves) as url, connect(url) as client:
            with pytest.raises(ConnectionLost):
                await client.speak("The first, which may be there before the client knows.").read()
            speech = client.speak("Hello.")
            with pytest.raises(ConnectionLost):
                await speech
            with pytest.raises(ConnectionLost):
                await speech.read()


async def test_missing_session_message_times_out() -> None:
    async def silent(socket: ServerConnection) -> None:
        await socket.wait_closed()

    async with asyncio.timeout(60):
        async with faulty_server(silent) as url:
            with pytest.raises(SpeechTimeout) as late:
                async with connect(url, timeout=0.1):
                    pass
            assert (late.value.code, late.value.retryable) == ("timeout", True)


async def test_silent_utterance_times_out_and_queue_updates_reset_the_timer() -> None:
    async with asyncio.timeout(60):
        cancelled = asyncio.Event()

        async def queues(socket: ServerConnection) -> None:
            await until_done(socket)
            for position in (3, 2, 1, 0):
                await asyncio.sleep(0.4)
                place = {"context_id": "u1", "position": position, "eta_ms": None}
                await socket.send(json.dumps({"type": "queue", **place}))
            async for message in socket:
                if json.loads(message)["type"] == "context.cancel":
                    cancelled.set()

        async with faulty_server(queues) as url, connect(url) as client:
            # The timeout is shorter than the sum of all four waits, but longer than each wait.
            speech = client.speak("Hello.", timeout=1.2)
            with pytest.raises(SpeechTimeout):
                await speech.read()
            await cancelled.wait()
            assert [chunk async for chunk in speech] == []
            assert speech.queued == Queued(0)


def test_pronunciation_dictionaries_can_be_stored_used_and_deleted(server: RunningServer) -> None:
    with sync.connect(server.http) as client:
        kept = client.add_pronunciation_dictionary("Names of the client", [{"word": "Nguyen", "say_as": "Lose"}])
        try:
            assert kept["id"] in {one["id"] for one in client.pronunciation_dictionaries()}
            client.edit_pronunciation_dictionary(kept["id"], pronunciations=[{"word": "Nguyen", "say_as": "Win"}])
            assert client.pronunciation_dictionary(kept["id"])["pronunciations"][0]["say_as"] == "Win"
            heard = client.speak("Ask Nguyen.", pronunciation_dictionaries=[kept["id"]], **VOICE).read()
            assert same_sound(heard, client.speak("Ask Win.", **VOICE).read())
        finally:
            client.delete_pronunciation_dictionary(kept["id"])
        with pytest.raises(SpeechRefused) as gone:
            client.speak("Ask Nguyen.", pronunciation_dictionaries=[kept["id"]], **VOICE).read()
        assert (gone.value.code, gone.value.param) == (
            "pronunciation_dictionary_not_found",
            "pronunciation_dictionaries",
        )
