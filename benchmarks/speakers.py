"""The two ways to a listener: the engine in this process, and a WebSocket. Both make a `Trace` of a `Call`."""

from __future__ import annotations

import asyncio
import json
import socket as sockets
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.typing import Subprotocol

from benchmarks.cast import config_for, new_reference, new_upload, request_for
from benchmarks.figures import BYTES_PER_S, Outcome, Trace
from benchmarks.plan import PACE_S, SILENCE_S, Call, Manner, Plan, writing
from runtime.engine.engine import Engine
from runtime.errors import Overloaded, QueueTimeout, SpeechError
from runtime.request import AudioChunk, Broken, Finished, Mode, Reference, SpeechEvent
from voicewright import PROTOCOL

TIMEOUT_S = 120.0
CONNECTIONS = 64  # that an open loop finds open; past them a call waits for its connection first
SLOWNESS = 2.0  # seconds that a slow reader takes for a second of sound
SLOW_BUFFER_BYTES = 8192  # of its socket: what it has not read must not be hidden by the kernel
NO_ROOM = frozenset({Overloaded.code, QueueTimeout.code})


class Speaker(Protocol):
    """Says one call and returns what was heard; never raises."""

    async def prepare(self, plan: Plan) -> None:
        """Have ready what the calls of a plan send, so that making it takes no time of theirs."""

    async def speak(self, call: Call, mode: Mode) -> Trace: ...


def new_trace(call: Call, bytes_a_frame: int) -> Trace:
    return Trace(call.number, call.frames * bytes_a_frame, call.manner, call.is_counted)


class EngineSpeaker:
    """The started engine of this process. Sound counts as heard when its sink is called."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._references: dict[int, Reference] = {}  # by call; of those that bring a voice of their own

    async def prepare(self, plan: Plan) -> None:
        if plan.voices is not None:
            self._references = {call.number: new_reference(plan.voices, call.number) for call in plan.calls}

    async def speak(self, call: Call, mode: Mode) -> Trace:
        engine, loop, ended = self._engine, asyncio.get_running_loop(), asyncio.Event()
        card = next(card for card in engine.cards if mode in card.modes)
        trace = new_trace(call, 2 * card.samples_per_frame)

        def sink(event: SpeechEvent) -> None:
            if isinstance(event, AudioChunk):
                trace.chunks.append((time.perf_counter_ns(), len(event.pcm)))
            elif isinstance(event, Finished | Broken):
                trace.end_ns = time.perf_counter_ns()
                trace.outcome = _outcome(event)
                if isinstance(event, Broken):
                    trace.code = event.error.code
                else:
                    trace.stop = event.stop_reason
                loop.call_soon_threadsafe(ended.set)

        is_live = call.manner in PACE_S
        first = next(writing(call))[1] if is_live else call.text
        reference = self._references.get(call.number)
        request = request_for(
            card,
            mode,
            first,
            call.frames,
            call.number,
            is_live=is_live,
            language=call.language,
            reference=reference,
        )
        request = replace(request, acknowledged=call.manner is Manner.SLOW)
        trace.sent_ns = time.perf_counter_ns()
        trace.text_ns = 0 if is_live else trace.sent_ns
        try:
            ticket = engine.submit(request, sink)
        except SpeechError as error:
            trace.outcome = Outcome.REFUSED if error.code in NO_ROOM else Outcome.FAILED
            trace.code = error.code
            trace.end_ns = time.perf_counter_ns()
            return trace
        besides = [asyncio.create_task(work) for work in self._besides(call, ticket, trace)]
        try:
            await asyncio.wait_for(ended.wait(), TIMEOUT_S)
        except TimeoutError:
            engine.cancel(ticket)
            trace.outcome = Outcome.FAILED
            trace.code = "timeout"
            trace.end_ns = time.perf_counter_ns()
        for task in besides:
            task.cancel()
        _check_text(trace)
        return trace

    def _besides(self, call: Call, ticket: int, trace: Trace) -> list[Coroutine[Any, Any, None]]:
        """What the client does while it listens."""
        engine = self._engine
        if call.manner in PACE_S:
            return [self._write(ticket, call, trace)]
        if call.manner is Manner.CANCEL:
            return [_later(call.cut_s, lambda: engine.cancel(ticket))]
        return [self._read_slowly(ticket, trace)] if call.manner is Manner.SLOW else []

    async def _write(self, ticket: int, call: Call, trace: Trace) -> None:
        for wait_s, piece in islice(writing(call), 1, None):
            await _silence(wait_s, trace)
            if piece:
                self._engine.append(ticket, piece)
                _note(piece, trace)
        trace.text_ns = time.perf_counter_ns()
        self._engine.finish_text(ticket)

    async def _read_slowly(self, ticket: int, trace: Trace) -> None:
        taken = 0
        while True:
            await asyncio.sleep(0.1)
            taken = min(trace.bytes, taken + round(0.1 / SLOWNESS * BYTES_PER_S))
            self._engine.taken(ticket, taken // 2)


class SocketSpeaker:
    """A runtime on loopback, in the native protocol with plain frames; idle connections are used again.

    Connecting is not part of a call's time. Sound counts as heard when its message has been read.
    """

    def __init__(self, url: str, card: dict[str, Any]) -> None:
        self._url = url
        self._card = card
        self._idle: list[ClientConnection] = []
        self._uploads: dict[int, dict[str, Any]] = {}  # by call; of those that bring a voice of their own

    async def close(self) -> None:
        for connection in self._idle:
            await connection.close()

    async def prepare(self, plan: Plan) -> None:
        if plan.voices is not None:
            self._uploads = {call.number: new_upload(plan.voices, call.number) for call in plan.calls}
        self._idle += [await self._open() for _ in range((plan.clients or CONNECTIONS) - len(self._idle))]

    async def speak(self, call: Call, mode: Mode) -> Trace:
        trace = new_trace(call, 2 * int(self._card["samples_per_frame"]))
        connection = None
        try:
            is_slow = call.manner is Manner.SLOW
            connection = self._idle.pop() if self._idle and not is_slow else await self._open(is_slow=is_slow)
            async with asyncio.timeout(TIMEOUT_S):
                await self._say(connection, call, mode, trace)
        except TimeoutError:
            trace.outcome = Outcome.FAILED
            trace.code = "timeout"
        except (ConnectionClosed, InvalidHandshake, OSError) as error:
            trace.outcome = Outcome.FAILED
            trace.code = type(error).__name__
        trace.end_ns = time.perf_counter_ns()
        trace.sent_ns = trace.sent_ns or trace.end_ns
        _check_text(trace)
        if connection is not None:
            if trace.is_good and call.manner is not Manner.SLOW:
                self._idle.append(connection)
            else:
                await connection.close()
        return trace

    async def _open(self, *, is_slow: bool = False) -> ClientConnection:
        more: dict[str, Any] = {}
        if is_slow:
            address = urlsplit(self._url)
            more["sock"] = sockets.socket(sockets.AF_INET, sockets.SOCK_STREAM)
            more["sock"].setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, SLOW_BUFFER_BYTES)
            more["sock"].setblocking(False)
            await asyncio.get_running_loop().sock_connect(more["sock"], (address.hostname, address.port))
            more["max_queue"] = 1
        else:
            more["proxy"] = None
        connection = await connect(
            self._url, subprotocols=[Subprotocol(PROTOCOL)], compression=None, max_size=None, ping_interval=None, **more
        )
        await connection.recv()  # session.created
        await connection.send('{"type":"ping"}')  # or the session would be closed for never having said a thing
        await connection.recv()
        return connection

    async def _say(self, connection: ClientConnection, call: Call, mode: Mode, trace: Trace) -> None:
        is_live = call.manner in PACE_S
        upload = self._uploads.get(call.number)
        config = config_for(
            self._card, mode, call.frames, call.number, is_live=is_live, language=call.language, upload=upload
        )
        begin = json.dumps({"type": "session.config", **config})
        text = json.dumps({"type": "input.text", "text": call.text})
        if is_live:
            await connection.send(begin)
            writer = asyncio.create_task(_write(connection, call, trace))
        else:
            trace.sent_ns = trace.text_ns = time.perf_counter_ns()
            await connection.send(begin)
            await connection.send(text)
            await connection.send('{"type":"input.done"}')
            writer = asyncio.create_task(_cancel(connection, call.cut_s if call.manner is Manner.CANCEL else None))
        try:
            await _hear(connection, trace, SLOWNESS if call.manner is Manner.SLOW else 0.0)
        finally:
            writer.cancel()
            with suppress(asyncio.CancelledError, ConnectionClosed):
                await writer


async def _hear(connection: ClientConnection, trace: Trace, slowness: float) -> None:
    """Until the utterance has ended, one way or another."""
    while True:
        message = await connection.recv()
        if isinstance(message, bytes):
            trace.chunks.append((time.perf_counter_ns(), len(message)))
            if slowness:
                await asyncio.sleep(slowness * len(message) / BYTES_PER_S)
            continue
        fields = json.loads(message)
        match fields["type"]:
            case "audio.done":
                trace.outcome = Outcome.DONE
                trace.stop = fields["stop_reason"]
                return
            case "context.cancelled":
                trace.outcome = Outcome.CANCELLED
                return
            case "error":
                trace.code = fields["code"]
                trace.outcome = Outcome.REFUSED if trace.code in NO_ROOM else Outcome.FAILED
                return


async def _write(connection: ClientConnection, call: Call, trace: Trace) -> None:
    for wait_s, piece in writing(call):
        await _silence(wait_s, trace)
        trace.sent_ns = trace.sent_ns or time.perf_counter_ns()
        if piece:
            await connection.send(json.dumps({"type": "input.text", "text": piece}))
            _note(piece, trace)
    trace.text_ns = time.perf_counter_ns()
    await connection.send('{"type":"input.done"}')


async def _silence(wait_s: float, trace: Trace) -> None:
    began = time.perf_counter_ns()
    if wait_s:
        await asyncio.sleep(wait_s)
    if wait_s >= SILENCE_S:
        trace.silences.append((began, time.perf_counter_ns()))


def _note(piece: str, trace: Trace) -> None:
    """When the sentence behind a silence was written, where this piece is its last."""
    if trace.silences and piece.rstrip().endswith("."):
        trace.sentences.append((trace.silences[-1][1], time.perf_counter_ns()))


async def _cancel(connection: ClientConnection, after_s: float | None) -> None:
    if after_s is not None:
        await asyncio.sleep(after_s)
        await connection.send('{"type":"context.cancel"}')


async def _later(after_s: float, act: Callable[[], None]) -> None:
    await asyncio.sleep(after_s)
    act()


def _check_text(trace: Trace) -> None:
    """A reply that ended before its text was written has not spoken it."""
    if trace.outcome is Outcome.DONE and not trace.text_ns:
        trace.outcome = Outcome.FAILED
        trace.code = "ended_before_its_text"


def _outcome(event: Finished | Broken) -> Outcome:
    if isinstance(event, Broken):
        return Outcome.REFUSED if event.error.code in NO_ROOM else Outcome.FAILED
    return Outcome.CANCELLED if event.stop_reason == "cancelled" else Outcome.DONE
