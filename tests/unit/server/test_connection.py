"""Tests for the WebSocket connection between a client and the engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from starlette.websockets import WebSocket

from runtime.errors import Draining, GenerationFailed, Overloaded, UnreadableText, VoiceNotFound
from runtime.request import AudioChunk, Finished, Refused, RequestStats, Started, StopReason
from runtime.server.engine_host import EngineHost
from runtime.server.native.session import NativeSession
from runtime.server.session.dialect import Dialect
from runtime.server.speech_engine import Progress
from runtime.server.websocket_routes import serve_session
from runtime.settings import Limits, ServerSettings, Settings
from tests.support.library import MemoryLibrary
from tests.support.scripted_engine import ScriptedEngine
from tests.support.timeouts import becomes
from tests.unit.server.dialects import omni
from tests.unit.server.driver import CARD, CLONER
from tests.unit.server.native.driver import REFERENCE, two_voices

CHUNK = AudioChunk(pcm=bytes(3840), codes=np.zeros((1, 16), np.int64), first_sample=0)
END = Finished(stop_reason=StopReason.EOS, stats=RequestStats())


class Client:
    """Client end of a WebSocket in the ASGI interface.

    While the event ``reads`` is not set, every send of the server blocks.
    """

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.heard: asyncio.Queue[Any] = asyncio.Queue()
        self.reads = asyncio.Event()
        self.reads.set()

    async def receive(self) -> dict[str, Any]:
        return await self.inbox.get()

    async def send(self, message: Any) -> None:
        # A close message is sent even if the client does not read, as in connections.WebSocketConnection.
        if message["type"] != "websocket.close":
            await self.reads.wait()
        text = message.get("text")
        await self.heard.put(json.loads(text) if text else message.get("bytes") or message)

    def say(self, kind: str, **fields: Any) -> None:
        self.inbox.put_nowait({"type": "websocket.receive", "text": json.dumps({"type": kind, **fields})})

    async def hears(self, *kinds: str) -> list[Any]:
        """Receive as many messages as there are `kinds`, assert these kinds, and return them."""
        messages = [await asyncio.wait_for(self.heard.get(), 60) for _ in kinds]
        named = ["sound" if isinstance(message, bytes) else message["type"] for message in messages]
        assert named == list(kinds), messages
        return messages


@asynccontextmanager
async def session(
    dialect: Dialect[Any] | None = None, **settings: Any
) -> AsyncIterator[tuple[Client, ScriptedEngine, EngineHost]]:
    """Serve a session, by default in the native API, and yield its client, engine and host."""
    engine, client = ScriptedEngine(cards=(CARD, CLONER), first_ticket=101), Client()

    def opened(_: Settings, __: Progress) -> Any:
        return engine

    host = EngineHost(Settings(server=ServerSettings(canary_s=0, **settings)), opened, two_voices())
    await host.load()
    websocket = WebSocket({"type": "websocket", "headers": []}, client.receive, client.send)
    client.inbox.put_nowait({"type": "websocket.connect"})
    await websocket.accept()
    await client.heard.get()
    native = NativeSession(
        limits=Limits(),
        cards=engine.cards,
        library=host.library,
        session_id="s",
        server="test",
        clock=asyncio.get_running_loop().time,
    )
    serving = asyncio.create_task(serve_session(websocket, host, dialect or native, name="voicewright", session_id="s"))
    if dialect is None:
        await client.hears("session.created")
    yield client, engine, host
    client.inbox.put_nowait({"type": "websocket.disconnect", "code": 1000})
    await asyncio.wait_for(serving, 60)
    assert not host.sockets
    host.decoders.shutdown()


async def test_only_sent_audio_is_acknowledged_to_the_engine() -> None:
    async with session() as (client, engine, _host):
        client.say("session.config")
        client.say("input.text", text="Hello.")
        await becomes(lambda: bool(engine.sinks))
        engine.emit(101, Started(seed=1, checkpoint="tiny"))
        engine.emit(101, CHUNK)
        await client.hears("audio.start", "sound")
        await becomes(lambda: ("ack_sent", 101, 1920) in engine.commands)
        client.reads.clear()
        for _ in range(3):
            engine.emit(101, CHUNK)
        await asyncio.sleep(0.02)
        assert [commands for commands in engine.commands if commands[0] == "ack_sent"] == [("ack_sent", 101, 1920)]
        client.reads.set()
        await client.hears("sound", "sound", "sound")
        await becomes(lambda: ("ack_sent", 101, 4 * 1920) in engine.commands)
        assert [commands[2] for commands in engine.commands if commands[0] == "ack_sent"] == [1920, 3840, 5760, 7680]
        client.say("playback", played_ms=80)
        await becomes(lambda: ("ack_played", 101, 80.0) in engine.commands)
        engine.emit(101, END)
        await client.hears("audio.done")
        assert ("cancel", 101) not in engine.commands


async def test_text_flush_and_end_reach_the_engine_in_order() -> None:
    async with session() as (client, engine, _host):
        client.say("session.config")
        for text in ("One ", "two"):
            client.say("input.text", text=text)
        client.say("input.flush")
        client.say("input.done")
        await becomes(lambda: ("finish_text", 101) in engine.commands)
        assert engine.requests[0].text == "One "
        assert engine.commands == [("append_text", 101, "two"), ("flush", 101), ("finish_text", 101)]


async def test_disconnect_releases_its_slots() -> None:
    async with session() as (client, engine, _host):
        client.say("session.config", frames="labelled")
        for name in "ab":
            client.say("input.text", text="Hello.", context_id=name)
        await becomes(lambda: len(engine.sinks) == 2)

    assert engine.commands == [("cancel", 101), ("cancel", 102)]


async def test_refused_sentences_do_not_block_the_event_loop() -> None:
    """Each sentence of a long text is refused.

    After each refusal, the next sentence is submitted.
    """
    async with session(omni().dialect) as (client, engine, _host):
        engine.refusal = UnreadableText()
        client.say("session.config", split_granularity="sentence")
        client.say("input.text", text="Да. " * 500)
        client.say("input.done")
        heard = [0]  # Number of received messages after each iteration of the event loop.
        while heard[-1] < 3 * 500 + 1:
            await asyncio.sleep(0)
            heard.append(client.heard.qsize())
    assert max(after - before for before, after in pairwise(heard)) <= 16


async def test_engine_refusal_is_sent_and_counted() -> None:
    async with session() as (client, engine, host):
        client.say("session.config")
        for refusal in (Overloaded(slots=1, waiting=1, retry_after_s=2.0), GenerationFailed()):
            engine.refusal = refusal
            client.say("input.text", text="Hello.")
            client.say("input.done")
            (error,) = await client.hears("error")
            assert (error["code"], error["context_id"]) == (refusal.code, "default")

    page = host.metrics.format_page(None)
    assert b'voicewright_refusals_total{code="overloaded"} 1.0' in page
    assert b'voicewright_refusals_total{code="generation_failed"} 1.0' in page


@pytest.mark.logs_errors
async def test_unexpected_error_of_submit_ends_only_its_request() -> None:
    async with session() as (client, engine, host):
        engine.faults["submit"] = RuntimeError("planted")
        client.say("session.config")
        client.say("input.text", text="One.")
        client.say("input.done")
        (refused,) = await client.hears("error")
        assert (refused["code"], refused["context_id"]) == (GenerationFailed.code, "default")
        assert b'voicewright_refusals_total{code="generation_failed"} 1.0' in host.metrics.format_page(None)
        del engine.faults["submit"]
        client.say("input.text", text="Two.")
        await becomes(lambda: [request.text for request in engine.requests] == ["Two."])


async def test_stored_voice_is_read_off_the_event_loop() -> None:
    async with session() as (client, engine, _host):
        client.say("session.config", voice="clara")
        client.say("input.text", text="Hello.")
        await becomes(lambda: bool(engine.requests))
        reference = engine.requests[0].reference
        assert reference is not None
        assert (reference.samples is REFERENCE.samples, reference.text) == (True, "I am Clara.")


async def test_missing_stored_voice_is_a_client_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: MemoryLibrary, voice_id: str) -> None:
        raise VoiceNotFound

    monkeypatch.setattr(MemoryLibrary, "reference", gone)
    async with session() as (client, _engine, _host):
        client.say("session.config", voice="clara")
        client.say("input.text", text="Hello.")
        (error,) = await client.hears("error")
        assert (error["code"], error["param"], error["context_id"]) == ("voice_not_found", "voice", "default")


async def test_drain_finishes_running_replies_and_refuses_new_requests() -> None:
    async with session() as (client, engine, host):
        client.say("session.config", frames="labelled")
        client.say("input.text", text="Hello", context_id="a")
        await becomes(lambda: bool(engine.sinks))
        host.refuse(Draining())
        for socket in host.sockets:
            socket.drain()
        client.say("input.text", text="No.", context_id="b")
        (error,) = await client.hears("error")
        assert (error["code"], error["context_id"]) == ("draining", "b")
        client.say("input.done", context_id="a")
        await becomes(lambda: ("finish_text", 101) in engine.commands)
        engine.emit(101, END)
        _, last, close = await client.hears("audio.done", "error", "websocket.close")
        assert (last["code"], last["context_id"], close["code"]) == ("draining", None, 1001)


async def test_drain_continues_a_reply_after_a_refused_sentence() -> None:
    async with session(omni().dialect) as (client, engine, host):
        client.say("session.config", split_granularity="sentence")
        client.say("input.text", text="One. Two.")
        client.say("input.done")
        await becomes(lambda: bool(engine.sinks))
        for socket in host.sockets:
            socket.drain()
        engine.emit(101, Refused(UnreadableText()))
        await becomes(lambda: len(engine.sinks) == 2)


@pytest.mark.logs_errors
async def test_internal_error_in_a_session_ends_only_that_session(monkeypatch: pytest.MonkeyPatch) -> None:
    async with session() as (client, _engine, _host):

        def broken(*_: object) -> None:
            raise RuntimeError("a fault")

        monkeypatch.setattr(NativeSession, "_configure", broken)
        client.say("session.config")
        error, close = await client.hears("error", "websocket.close")
        assert (error["code"], close["code"]) == ("generation_failed", 1011)
        assert "fault" not in error["message"]


@pytest.mark.logs_errors
async def test_audio_encoding_failure_ends_the_session_with_an_error_message() -> None:
    def broken() -> None:
        raise ValueError("a codec's")

    async with session() as (client, _engine, host):
        connection: Any = next(iter(host.sockets))
        connection._dialect.send_queue.add_encoded(broken, number=1, samples=1, about="c")
        client.say("ping", t=1)  # The reply wakes the writer, which then encodes the pending audio.
        _, error, _ = await client.hears("pong", "error", "websocket.close")
        assert error["code"] == "generation_failed"
