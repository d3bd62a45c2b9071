"""Clients of the soak test.

The clients send complete and streamed texts, read slowly, cancel, disconnect, send invalid input, and use several APIs.
`SoakReport` has the results and the violated guarantees.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from benchmarks.common.metrics import RequestOutcome, RequestTrace, percentile, percentiles
from benchmarks.common.servers import BenchRuntime
from benchmarks.common.texts import Dataset
from benchmarks.common.voices import NewVoices, config_for
from benchmarks.serve.clients import AUDIO_AFTER_CANCEL, CALL_TIMEOUT_S, SocketClient
from benchmarks.serve.plan import Call, ClientBehaviour, Plan, Workload
from runtime.request import Mode

# Kinds of clients. A kind that occurs more often gets more clients. TTFA is measured for complete texts only.
KINDS = ("whole", "cancel", "http", "slow", "whole", "hangup", "words", "omni", "nonsense", "whole", "cancel", "http")
VOICES = NewVoices(2.0, x_vector_only=True)
NONSENSE = (
    "{",
    "[]",
    '{"type":"dance"}',
    '{"type":"input.text","text":5}',
    '{"type":"session.config","seed":-1}',
    "\0",
)
UNLOADED_REPLIES = 12
REQUEST_KINDS = 18  # Number of different requests over all modes of the checkpoint.
MAX_SLOWDOWN = 2.0  # Maximum ratio of TTFA (without queueing time) under load to TTFA without load.


@dataclass(slots=True)
class SoakReport:
    """Results of all clients of a soak test, and resource usage of the server.

    The resource usage is measured after a third of the time and at the end.
    """

    replies: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)
    audio_after_cancel: int = 0
    stalls: int = 0
    unloaded_ttfa_ms: list[float] = field(default_factory=list)
    ttfa_ms: list[float] = field(default_factory=list)  # TTFA without the time in the queue.
    refusal_ms: list[float] = field(default_factory=list)
    usage: dict[str, list[float]] = field(default_factory=dict)
    leaked_slots: int = -1

    def note_error(self, trace: RequestTrace) -> None:
        """Record a request that was refused or has failed."""
        self.audio_after_cancel += trace.code == AUDIO_AFTER_CANCEL
        self.stalls += trace.code == "timeout"
        if trace.outcome is RequestOutcome.REFUSED:
            self.refusal_ms.append(trace.total_ms)

    def note_usage(self, usage: dict[str, Any]) -> None:
        """Record the current resource usage of the runtime's processes."""
        for name, value in usage.items():
            self.usage.setdefault(name, []).append(value)

    def summary(self) -> dict[str, Any]:
        """Return all metrics and the violated guarantees as a dictionary."""
        return {
            **{"replies": dict(self.replies), "refused": dict(self.refused)},
            "streams_unlike_their_solo_run": len(self.different),
            "audio_after_cancel": self.audio_after_cancel,
            **{"stalls": self.stalls, "leaked_slots": self.leaked_slots},
            **percentiles("ttfa_unloaded", self.unloaded_ttfa_ms, 50, 95, digits=1),
            **percentiles("ttfa_without_queue", self.ttfa_ms, 50, 95, digits=1),
            **percentiles("refusal", self.refusal_ms, 50, 95, digits=1),
            **{f"{name}_at_a_third_and_the_end": values for name, values in self.usage.items()},
            "broken": self.broken(),
        }

    def broken(self) -> list[str]:
        """Return a sentence for each guarantee that the runtime has violated."""
        loaded, unloaded = percentile(self.ttfa_ms, 0.5), percentile(self.unloaded_ttfa_ms, 0.5)
        is_slow = loaded is not None and unloaded is not None and loaded > MAX_SLOWDOWN * unloaded
        checks = {
            "a stream was not its solo run": bool(self.different),
            "audio came after a cancel": self.audio_after_cancel > 0,
            "a reply hung": self.stalls > 0,
            "slots leaked": self.leaked_slots != 0,
            f"TTFA under load is more than {MAX_SLOWDOWN:g} times the unloaded": is_slow,
        }
        return [what for what, is_broken in checks.items() if is_broken]


class SoakClients:
    """Clients of one soak test, and the expected audio of each request.

    `card` is an entry of the response of /v1/models.
    """

    def __init__(self, runtime: BenchRuntime, card: dict[str, Any], report: SoakReport) -> None:
        self.runtime = runtime
        self.card = card
        self.report = report
        self.wishes = [self._wish(number) for number in range(REQUEST_KINDS)]
        # Digest of the expected audio by (number of the request, True if its text is streamed).
        self.solo: dict[tuple[int, bool], str] = {}

    def _wish(self, number: int) -> tuple[Call, Workload]:
        mode = Mode(self.card["modes"][number % len(self.card["modes"])])
        load = Workload(mode, Dataset.ENGLISH_SHORT, voices=VOICES if mode is Mode.BASE else None)
        frames = random.Random(number).randrange(12, 40)
        return replace(load.call(number), frames=frames), load

    async def prepare(self) -> None:
        """Run each request alone to get its expected audio, and measure TTFA without load.

        Raises:
            SystemExit: A request failed although no other request was running.
        """
        for call, load in self.wishes:
            for manner in (ClientBehaviour.WHOLE, ClientBehaviour.WORDS):
                trace = await self._speak(replace(call, manner=manner), load)
                if not trace.digest:
                    raise SystemExit(f"a request failed when it was alone: {trace.code} {call.text}")
                self.solo[call.number, manner is ClientBehaviour.WORDS] = trace.digest
        for number in range(UNLOADED_REPLIES):
            trace = await self._speak(*self.wishes[number % len(self.wishes)])
            self.report.unloaded_ttfa_ms.append(trace.ttfa_ms or 0.0)

    async def keep_calling(self, kind: str, number: int, until: float) -> None:
        """Send requests of one kind repeatedly, until a time on the monotonic clock.

        Args:
            kind: Kind of client behaviour, such as disconnecting.
            number: Number of the client, which seeds its random choices.
            until: End time in seconds.
        """
        draw = random.Random(f"{kind}{number}")
        acts: dict[str, Callable[[Call, Workload, random.Random], Awaitable[None]]] = {
            "hangup": self._hang_up,
            "nonsense": self._send_nonsense,
            "http": self._post,
            "omni": self._speak_omni,
        }
        while time.monotonic() < until:
            call, load = draw.choice(self.wishes)
            try:
                async with asyncio.timeout(CALL_TIMEOUT_S + 10):
                    if kind in acts:
                        await acts[kind](call, load, draw)
                    else:
                        await self._speak_counted(ClientBehaviour(kind), call, load, draw)
                self.report.replies[kind] += 1
            except TimeoutError:
                self.report.stalls += 1
            except RequestRefused as refusal:
                self.report.refused[refusal.code] += 1
                await asyncio.sleep(draw.uniform(0.1, 0.6))
            except (ConnectionClosed, OSError, httpx.HTTPError):
                self.report.refused["connection"] += 1
                await asyncio.sleep(0.2)

    async def _speak(self, call: Call, load: Workload) -> RequestTrace:
        client = SocketClient(self.runtime.stream, self.card, is_hashing=True)
        await client.prepare(Plan(load, 1, (call,)))
        try:
            return await client.speak(call, load)
        finally:
            await client.close()

    async def _speak_counted(self, manner: ClientBehaviour, call: Call, load: Workload, draw: random.Random) -> None:
        trace = await self._speak(replace(call, manner=manner, cut_s=draw.uniform(0, 1.5)), load)
        if trace.outcome in (RequestOutcome.REFUSED, RequestOutcome.FAILED):
            self.report.note_error(trace)
            raise RequestRefused(trace.code)
        if trace.digest and trace.digest != self.solo[call.number, manner is ClientBehaviour.WORDS]:
            self.report.different.append(f"{manner}: {call.number} {call.text}")
        if manner is ClientBehaviour.WHOLE and trace.ttfa_ms is not None:
            self.report.ttfa_ms.append(trace.ttfa_ms - trace.queue_ms)
        await asyncio.sleep(draw.uniform(0, 0.3))

    async def _hang_up(self, call: Call, load: Workload, draw: random.Random) -> None:
        async with self._session(call, load) as connection:
            await _send(connection, "input.text", text=call.text)
            await _send(connection, "input.done")
            await asyncio.sleep(draw.uniform(0, 1.0))
            raw = connection.transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.transport.abort()

    async def _send_nonsense(self, call: Call, load: Workload, draw: random.Random) -> None:
        async with self._session(call, load) as connection:
            for _ in range(5):
                await connection.send(draw.choice(NONSENSE) if draw.random() < 0.8 else draw.randbytes(20))
                await asyncio.sleep(0.02)
            try:
                while True:
                    await asyncio.wait_for(connection.recv(), 0.3)
            except TimeoutError:
                return

    async def _post(self, call: Call, load: Workload, draw: random.Random) -> None:
        body = {"model": "tts-1", "input": call.text, "response_format": "pcm", **self._config(call, load)}
        digest, size = blake2b(), 0
        stop_after = draw.randrange(200_000) if draw.random() < 0.3 else None
        async with (
            httpx.AsyncClient(trust_env=False, timeout=CALL_TIMEOUT_S) as client,
            client.stream("POST", f"{self.runtime.url}/v1/audio/speech", json=body) as response,
        ):
            if response.status_code != 200:
                await response.aread()
                raise RequestRefused(response.json()["error"]["code"])
            async for part in response.aiter_bytes():
                digest.update(part)
                size += len(part)
                if stop_after is not None and size > stop_after:
                    return
        self._compare(call, digest.hexdigest(), "http")

    async def _speak_omni(self, call: Call, load: Workload, draw: random.Random) -> None:
        digest = blake2b()
        async with connect(self.runtime.stream, max_size=None, compression=None) as connection:
            config = {"stream_audio": True, "response_format": "pcm", **self._config(call, load)}
            await _send(connection, "session.config", **config)
            await _send(connection, "input.text", text=call.text)
            await _send(connection, "input.done")
            async for message in connection:
                if isinstance(message, bytes):
                    digest.update(message)
                    continue
                fields = json.loads(message)
                if fields["type"] == "error":
                    raise RequestRefused(fields.get("code", "error"))
                if fields["type"] == "session.done":
                    break
        self._compare(call, digest.hexdigest(), "omni")

    def _config(self, call: Call, load: Workload) -> dict[str, Any]:
        upload = load.voices.upload(call.number) if load.voices else None
        return config_for(self.card, load.mode, call.frames, call.number, upload=upload)

    @asynccontextmanager
    async def _session(self, call: Call, load: Workload) -> AsyncIterator[ClientConnection]:
        """Context manager that opens a connection and configures it for a call."""
        connection = await SocketClient(self.runtime.stream, self.card).open_connection()
        try:
            await _send(connection, "session.config", **self._config(call, load))
            yield connection
        finally:
            await connection.close()

    def _compare(self, call: Call, digest: str, dialect: str) -> None:
        if digest != self.solo[call.number, False]:
            self.report.different.append(f"{dialect}: {call.number} {call.text}")


class RequestRefused(Exception):
    """Error for a request that was refused or failed.

    `code` is the error code in the response.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


async def _send(connection: ClientConnection, kind: str, **fields: Any) -> None:
    await connection.send(json.dumps({"type": kind, **fields}))
