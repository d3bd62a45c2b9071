"""Tests for the streaming HTTP response: start, acknowledgements, end and cancellation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from starlette.types import Message

from runtime.errors import Draining, GenerationFailed, SlowReader, TextTooLong
from runtime.request import AudioChunk, Broken, Finished, Mode, Queued, RequestStats, SpeechRequest, Started, StopReason
from runtime.server.engine_host import EngineHost
from runtime.server.http.speech_stream import SpeechStream, StreamingReply, while_connected
from runtime.settings import Settings
from tests.support.library import MemoryLibrary
from tests.support.scripted_engine import ScriptedEngine, chunk, finished, started

REQUEST = SpeechRequest(text="Hello.", mode=Mode.CUSTOM_VOICE, acknowledged=True)
REPLIES: set[asyncio.Task[Any]] = set()


class Wire:
    """ASGI interface of a fake client, which records messages and can disconnect."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.gone = asyncio.Event()
        self.reading = asyncio.Event()
        self.reading.set()

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self.reading.wait()
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def is_complete(self) -> bool:
        return bool(self.sent) and self.sent[-1].get("more_body") is False


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def reply_of(
    pieces: AsyncGenerator[bytes, None],
    *,
    send_s: float = 30.0,
    replies: set[asyncio.Task[Any]] = REPLIES,
    **late: str,
) -> StreamingReply:
    return StreamingReply(
        pieces,
        media_type="audio/pcm",
        headers={"X-Early": "1"},
        late_headers=lambda: late,
        send_s=send_s,
        replies=replies,
    )


async def test_stream_yields_events_in_order_and_stops_after_the_last_event() -> None:
    engine = ScriptedEngine({1: [Queued(0), started(), chunk(), chunk(2), finished()]})
    begun = time.monotonic()
    async with SpeechStream(engine, REQUEST) as speech:
        heard = [type(event) async for event in speech]
        assert speech.seed == 3
        assert speech.queue_ms is not None
        assert speech.ttfa_ms is not None
        assert 0 <= speech.queue_ms <= speech.ttfa_ms <= 1000 * (time.monotonic() - begun)
    assert heard == [Queued, Started, AudioChunk, AudioChunk, Finished]


async def test_audio_is_acknowledged_when_the_next_chunk_is_requested() -> None:
    engine = ScriptedEngine({1: [chunk(), chunk(2), finished()]})
    async with SpeechStream(engine, REQUEST) as speech:
        await anext(speech)
        assert engine.sent == []
        await anext(speech)
        assert engine.sent == [(1, 1920)]
        await anext(speech)
        assert engine.sent == [(1, 1920), (1, 3 * 1920)]


async def test_failure_is_raised_with_its_error_code() -> None:
    error = TextTooLong(param="text", count=2, unit="characters", limit=1)
    engine = ScriptedEngine({1: [started(), Broken(error, RequestStats())]})
    async with SpeechStream(engine, REQUEST, text_field="input") as speech:
        await anext(speech)
        with pytest.raises(TextTooLong) as caught:
            await anext(speech)
        assert caught.value.param == "input"
        with pytest.raises(StopAsyncIteration):
            await anext(speech)
    engine.refusal = TextTooLong(param="text", count=2, unit="characters", limit=1)
    with pytest.raises(TextTooLong) as caught:
        async with SpeechStream(engine, REQUEST, text_field="input") as speech:
            await anext(speech)
    assert caught.value.param == "input"


async def test_end_is_reported_once_after_the_stream_was_closed() -> None:
    engine, ends = ScriptedEngine({1: [started(), chunk()]}), []
    async with SpeechStream(engine, REQUEST, on_end=ends.append) as speech:
        await anext(speech)
    engine.emit(1, finished(StopReason.CANCELLED))
    await settle()
    assert [end.stop_reason for end in ends] == [StopReason.CANCELLED]


async def test_leaving_the_context_manager_early_cancels_the_request() -> None:
    engine = ScriptedEngine({1: [started(), chunk()]})
    async with SpeechStream(engine, REQUEST) as speech:
        await anext(speech)
        assert engine.cancelled == []
    assert engine.cancelled == [1]


async def test_event_after_the_loop_has_closed_raises_no_error() -> None:
    engine = ScriptedEngine()

    async with SpeechStream(engine, REQUEST):
        pass
    engine.emit(1, chunk())


async def spoken_pieces(engine: ScriptedEngine) -> AsyncGenerator[bytes, None]:
    async with SpeechStream(engine, REQUEST) as speech:
        async for event in speech:
            if isinstance(event, AudioChunk):
                yield event.pcm


async def test_http_status_waits_for_the_first_audio() -> None:
    engine, wire = ScriptedEngine(), Wire()
    reply = reply_of(spoken_pieces(engine), **{"X-Late": "2"})
    serving = asyncio.create_task(reply({}, wire.receive, wire.send))
    await settle()
    engine.emit(1, Queued(0), started())
    await settle()
    assert wire.sent == []
    engine.emit(1, chunk())
    await settle()
    assert [message["type"] for message in wire.sent] == ["http.response.start", "http.response.body"]
    headers = dict(wire.sent[0]["headers"])
    assert (headers[b"x-early"], headers[b"x-late"], headers[b"content-type"]) == (b"1", b"2", b"audio/pcm")
    assert b"content-length" not in headers
    engine.emit(1, chunk(2), finished())
    await serving
    assert wire.is_complete
    assert len(wire.body) == 3 * 3840


async def test_error_before_first_audio_is_raised_and_later_error_breaks_the_response() -> None:
    broken = Broken(GenerationFailed(), RequestStats())
    wire = Wire()
    with pytest.raises(GenerationFailed):
        await reply_of(spoken_pieces(ScriptedEngine({1: [started(), broken]})))({}, wire.receive, wire.send)
    assert wire.sent == []
    await reply_of(spoken_pieces(ScriptedEngine({1: [started(), chunk(), broken]})))({}, wire.receive, wire.send)
    assert len(wire.body) == 3840
    assert not wire.is_complete


@pytest.mark.parametrize("heard", [0, 1])
async def test_disconnect_cancels_the_request_before_and_after_the_first_byte(heard: int) -> None:
    tasks = asyncio.all_tasks()
    engine, wire = ScriptedEngine(), Wire()
    serving = asyncio.create_task(reply_of(spoken_pieces(engine))({}, wire.receive, wire.send))
    await settle()
    engine.emit(1, Queued(0), started(), *[chunk()] * heard)
    await settle()
    wire.gone.set()
    await asyncio.wait_for(serving, 60)
    assert engine.cancelled == [1]
    assert len(wire.body) == 3840 * heard
    assert asyncio.all_tasks() == tasks


async def test_client_that_reads_nothing_is_paused_and_disconnected() -> None:
    engine, wire = ScriptedEngine(), Wire()
    reply = reply_of(spoken_pieces(engine), send_s=0.1)
    serving = asyncio.create_task(reply({}, wire.receive, wire.send))
    await settle()
    engine.emit(1, started(), chunk())
    await settle()
    wire.reading.clear()
    engine.emit(1, chunk(), chunk(), chunk())
    await settle()
    assert engine.sent == [(1, 1920)]  # The second chunk is still being sent.
    await asyncio.wait_for(serving, 60)
    assert engine.cancelled == [1]
    assert not wire.is_complete


async def test_background_work_is_cancelled_with_its_client_and_raises_its_error() -> None:
    wire, ended, tasks = Wire(), asyncio.Event(), asyncio.all_tasks()

    async def long() -> int:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return 1

    async def short() -> int:
        return 7

    async def wrong() -> int:
        raise SlowReader(limit=1.0)

    assert await while_connected(wire.receive, short(), REPLIES) == 7
    with pytest.raises(SlowReader):
        await while_connected(wire.receive, wrong(), REPLIES)
    waiting = asyncio.create_task(while_connected(wire.receive, long(), REPLIES))
    await settle()
    wire.gone.set()
    assert await asyncio.wait_for(waiting, 60) is None
    assert ended.is_set()
    assert not REPLIES
    assert asyncio.all_tasks() == tasks


@pytest.mark.parametrize("heard", [0, 1])
async def test_server_shutdown_cancels_background_work_after_the_timeout(heard: int) -> None:
    engine, wire = ScriptedEngine(), Wire()
    host = EngineHost(Settings(), lambda *_: engine, MemoryLibrary())
    await host.load()
    reply = reply_of(spoken_pieces(engine), replies=host.replies)
    serving = asyncio.create_task(reply({}, wire.receive, wire.send))
    await settle()
    engine.emit(1, started(), *[chunk()] * heard)
    await settle()
    await host.close_sessions(Draining(), 1001, timeout_s=0.05)
    if heard:
        await serving
        assert wire.body
        assert not wire.is_complete
    else:
        with pytest.raises(Draining):
            await serving
        assert wire.sent == []
    assert engine.cancelled == [1]
    host.close()


async def test_large_response_is_sent_in_parts_between_other_tasks() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield bytes(2**22)

    wire, other = Wire(), asyncio.create_task(count_turns())
    await reply_of(pieces())({}, wire.receive, wire.send)
    other.cancel()
    assert wire.is_complete
    assert wire.body == bytes(2**22)
    assert max(len(message.get("body", b"")) for message in wire.sent) <= 2**16
    assert turns >= 2**22 // 2**16
