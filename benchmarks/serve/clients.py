"""WebSocket client of the load test, which measures the times of each request."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Coroutine
from contextlib import suppress
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.typing import Subprotocol

from benchmarks.common.metrics import BYTES_PER_S, RequestOutcome, RequestTrace
from benchmarks.common.voices import config_for
from benchmarks.serve.plan import PACE_S, Call, ClientBehaviour, Plan, Workload, typed_words
from runtime.errors import Overloaded, QueueTimeout
from voicewright import PROTOCOL

CALL_TIMEOUT_S = 120.0
# Number of connections that are opened before an open loop starts. Further calls open a connection when they start.
OPEN_CONNECTIONS = 64
SLOW_READER_RATIO = 2.0  # Seconds in which a slow reader reads one second of audio.
SLOW_BUFFER_BYTES = 8192  # Receive buffer of a slow reader, small so that the kernel buffers little audio.
AUDIO_AFTER_CANCEL = "audio_after_cancel"
OVERLOAD_CODES = frozenset({Overloaded.code, QueueTimeout.code})


class SocketClient:
    """Client of a runtime that uses the native WebSocket protocol with binary audio.

    Idle connections are reused, and the measured time of a request excludes connecting. Audio counts as received when
    its message is read.
    """

    def __init__(self, stream: str, card: dict[str, Any], *, is_hashing: bool = False) -> None:
        self._stream = stream
        self._card = card
        self._is_hashing = is_hashing
        self._idle: list[ClientConnection] = []
        self._uploads: dict[int, dict[str, Any]] = {}  # Uploads of new voices by call number.

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def prepare(self, plan: Plan) -> None:
        if (voices := plan.load.voices) is not None:
            self._uploads = {call.number: voices.upload(call.number) for call in plan.calls}
        self._idle += [
            await self.open_connection() for _ in range((plan.clients or OPEN_CONNECTIONS) - len(self._idle))
        ]

    async def speak(self, call: Call, load: Workload) -> RequestTrace:
        size = 2 * int(self._card["samples_per_frame"])
        trace = RequestTrace(call.number, call.frames * size, call.manner, call.is_counted)
        is_slow = call.manner is ClientBehaviour.SLOW
        connection = None
        try:
            connection = self._idle.pop() if self._idle and not is_slow else await self.open_connection(is_slow=is_slow)
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await self._request(connection, call, load, trace)
        except TimeoutError:
            _note_error(trace, "timeout")
        except (ConnectionClosed, InvalidHandshake, OSError) as error:
            _note_error(trace, type(error).__name__)
        trace.end_ns = time.perf_counter_ns()
        trace.sent_ns = trace.sent_ns or trace.end_ns
        _check_text(trace)
        if connection is not None:
            if trace.is_good and not is_slow:
                self._idle.append(connection)
            else:
                await connection.close()
        return trace

    async def open_connection(self, *, is_slow: bool = False) -> ClientConnection:
        """Open a connection, wait for the runtime's first message, and return the connection."""
        options: dict[str, Any] = {"proxy": None}
        if is_slow:
            address = urlsplit(self._stream)
            narrow = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BUFFER_BYTES)
            narrow.setblocking(False)
            await asyncio.get_running_loop().sock_connect(narrow, (address.hostname, address.port))
            options = {"sock": narrow, "max_queue": 1}
        options |= {"subprotocols": [Subprotocol(PROTOCOL)], "compression": None, "max_size": None}
        connection = await connect(self._stream, ping_interval=None, **options)
        await connection.recv()  # The first message is session.created.
        await connection.send('{"type":"ping"}')  # The runtime closes sessions that have never sent a message.
        await connection.recv()
        return connection

    async def _request(self, connection: ClientConnection, call: Call, load: Workload, trace: RequestTrace) -> None:
        is_live = call.manner in PACE_S
        fields: dict[str, Any] = {"language": call.language, "upload": self._uploads.get(call.number)}
        config = config_for(self._card, load.mode, call.frames, call.number, is_live=is_live, **fields)
        first = json.dumps({"type": "session.config", **config})
        text = json.dumps({"type": "input.text", "text": call.text})
        if is_live:
            await connection.send(first)
            behaviour: Coroutine[Any, Any, None] = _write(connection, call, trace)
        else:
            trace.sent_ns = trace.text_ns = time.perf_counter_ns()
            for message in (first, text, '{"type":"input.done"}'):
                await connection.send(message)
            behaviour = _cancel(connection, call)
        task = asyncio.create_task(behaviour)
        try:
            await _receive_audio(connection, trace, blake2b() if self._is_hashing else None)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, ConnectionClosed):
                await task


async def _receive_audio(connection: ClientConnection, trace: RequestTrace, digest: blake2b | None) -> None:
    """Read messages until the utterance has ended, and record them in `trace`.

    If audio arrives after the response to a cancel, an error is recorded.
    """
    while True:
        message = await connection.recv()
        if isinstance(message, bytes):
            if trace.outcome is RequestOutcome.CANCELLED:
                _note_error(trace, AUDIO_AFTER_CANCEL)
                return
            trace.chunks.append((time.perf_counter_ns(), len(message)))
            if digest:
                digest.update(message)
            if trace.manner == ClientBehaviour.SLOW:
                await asyncio.sleep(SLOW_READER_RATIO * len(message) / BYTES_PER_S)
            continue
        fields = json.loads(message)
        match fields["type"]:
            case "audio.done":
                trace.outcome = RequestOutcome.DONE
                trace.stop = fields["stop_reason"]
                trace.queue_ms = fields["metrics"]["queue_ms"]
                trace.digest = digest.hexdigest() if digest else ""
                return
            case "context.cancelled":
                trace.outcome = RequestOutcome.CANCELLED
                await connection.send('{"type":"ping"}')
            case "pong":
                return
            case "error":
                _note_error(trace, fields["code"])
                return


async def _write(connection: ClientConnection, call: Call, trace: RequestTrace) -> None:
    for wait_s, piece in typed_words(call):
        await asyncio.sleep(wait_s)
        trace.sent_ns = trace.sent_ns or time.perf_counter_ns()
        if piece:
            await connection.send(json.dumps({"type": "input.text", "text": piece}))
    trace.text_ns = time.perf_counter_ns()
    await connection.send('{"type":"input.done"}')


async def _cancel(connection: ClientConnection, call: Call) -> None:
    if call.manner is ClientBehaviour.CANCEL:
        await asyncio.sleep(call.cut_s)
        await connection.send('{"type":"context.cancel"}')


def _note_error(trace: RequestTrace, code: str) -> None:
    trace.code = code
    trace.outcome = RequestOutcome.REFUSED if code in OVERLOAD_CODES else RequestOutcome.FAILED


def _check_text(trace: RequestTrace) -> None:
    """Mark a reply as failed if it ended before its text was sent completely."""
    if trace.outcome is RequestOutcome.DONE and not trace.text_ns:
        _note_error(trace, "ended_before_its_text")
