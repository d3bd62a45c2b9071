"""Abuse for minutes: mixed modes and dialects, cancels, hang-ups, slow readers and nonsense at twice the capacity.

Every stream that is heard to its end is compared, byte for byte, with what the same request said when it was alone.
`python -m benchmarks.soak --minutes 15`; JSON on stdout with --json, a table otherwise; exit status 1 if a promise
was broken. With --pause the clients rest between their requests: a long run beside other work.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import socket as socket_module
import struct
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from benchmarks.cast import recording_base64
from benchmarks.processes import of_processes
from benchmarks.soak_report import Report, lag_bounds
from benchmarks.sockets import BenchRuntime, runtime_process
from voicewright import PROTOCOL

TEXTS = (
    "The bread is warm.",
    "Nobody heard the door, and so nobody came.",
    "Take the second road on the left, then ask again at the mill.",
    "Rain, then sun, then rain again; the gulls did not mind.",
    "She counted to ten and opened her eyes.",
    "An apple, a rope and two candles: that was all he had.",
)
DESIGNS = ("A warm young voice, close to the microphone.", "An old man, slow and a little hoarse.")
NONSENSE = (
    "{",
    "[]",
    '{"type":"dance"}',
    '{"type":"input.text","text":5}',
    '{"type":"session.config","seed":-1}',
    "\u0000",
)
SAMPLE_S, SAMPLES = 5.0, 720  # how often figures are taken at most, and how many the picture has at most
MINUTE_S = 60.0  # of the TTFA of one point of the picture
STALL_S = 60.0  # without a message from the server: a hang
UNLOADED = 12  # replies by which the unloaded TTFA is known


@dataclass(frozen=True, slots=True)
class Wish:
    """One request, the same in every dialect that can say it."""

    text: str
    config: dict[str, Any]

    @property
    def key(self) -> str:
        return json.dumps([self.text, self.config], sort_keys=True)


class Soak:
    """One run against one runtime process."""

    def __init__(
        self, runtime: BenchRuntime, wishes: list[Wish], report: Report, seed: int, pause_s: float = 0.0
    ) -> None:
        self.url = runtime.stream
        self.http = runtime.url
        self.pid = runtime.pid
        self.wishes = wishes
        self.report = report
        self.solo: dict[str, str] = {}
        self.random = random.Random(seed)
        self.pause_s = pause_s
        self.until = 0.0

    async def prepare(self) -> None:
        """Hear every wish alone."""
        for wish in self.wishes:
            sound = await self._polite(wish, is_counted=False)
            if sound is None:
                raise SystemExit(f"a request failed when it was alone: {wish.key}")
            self.solo[wish.key] = _digest(sound)
        for number in range(UNLOADED):
            await self._polite(
                self.wishes[number % len(self.wishes)], is_counted=False, times=self.report.unloaded_ttfa_ms
            )

    async def run(self, minutes: float, kinds: list[str]) -> None:
        """A client a kind, each at it again and again."""
        self.until = time.monotonic() + 60 * minutes
        watching = asyncio.create_task(self._watch())
        await asyncio.gather(*(self._client(kind, number) for number, kind in enumerate(kinds)))
        watching.cancel()
        async with httpx.AsyncClient(trust_env=False) as client:
            for _ in range(100):
                load = (await client.get(f"{self.http}/ready")).json()
                if not load.get("active") and not load.get("waiting"):
                    break
                await asyncio.sleep(0.05)
            self.report.leaked_slots = load.get("active", -1) + load.get("waiting", 0)
            self.report.loop_lag_ms = lag_bounds((await client.get(f"{self.http}/metrics")).text)

    async def _client(self, kind: str, number: int) -> None:
        mind = random.Random(f"{kind}{number}")
        act: Callable[[Wish, random.Random], Awaitable[None]] = getattr(self, f"_{kind}_one")
        while time.monotonic() < self.until:
            if self.pause_s:
                await asyncio.sleep(mind.expovariate(1 / self.pause_s))
            wish = mind.choice(self.wishes)
            try:
                async with asyncio.timeout(STALL_S):
                    await act(wish, mind)
                self.report.replies[kind] += 1
            except TimeoutError:
                self.report.stalls += 1
            except RequestRefused as refusal:
                self.report.refused[refusal.code] += 1
                await asyncio.sleep(mind.uniform(0.1, 0.6))
            except (ConnectionClosed, OSError, httpx.HTTPError):
                self.report.refused["connection"] += 1
                await asyncio.sleep(0.2)

    # --- who there is

    async def _polite_one(self, wish: Wish, mind: random.Random) -> None:
        sound = await self._polite(wish, is_counted=True)
        self._compare(wish, sound, "native")
        await asyncio.sleep(mind.uniform(0, 0.3))

    async def _live_one(self, wish: Wish, mind: random.Random) -> None:
        """Writes word by word; the text is one sentence, and so the same part."""
        async with self._native(wish) as socket:
            for word in wish.text.split(" "):
                await _say(socket, "input.text", text=word + " ")
                await asyncio.sleep(mind.uniform(0, 0.02))
            await _say(socket, "input.done")
            sound, _ = await self._hear(socket)
        self._compare(wish, sound, "live")

    async def _cancel_one(self, wish: Wish, mind: random.Random) -> None:
        async with self._native(wish) as socket:
            await _say(socket, "input.text", text=wish.text)
            await _say(socket, "input.done")
            await asyncio.sleep(mind.uniform(0, 1.5))
            await _say(socket, "context.cancel")
            ended = False
            await _say(socket, "ping", t=1)
            while True:
                message = await socket.recv()
                if isinstance(message, bytes):
                    self.report.after_cancel += ended
                    continue
                kind = json.loads(message)["type"]
                ended = ended or kind in {"context.cancelled", "audio.done", "error"}
                if kind == "pong" and ended:
                    return
                if kind == "pong":
                    await _say(socket, "ping", t=1)

    async def _hangup_one(self, wish: Wish, mind: random.Random) -> None:
        async with self._native(wish) as socket:
            await _say(socket, "input.text", text=wish.text)
            await _say(socket, "input.done")
            await asyncio.sleep(mind.uniform(0, 1.0))
            raw = socket.transport.get_extra_info("socket")
            raw.setsockopt(socket_module.SOL_SOCKET, socket_module.SO_LINGER, struct.pack("ii", 1, 0))
            socket.transport.abort()

    async def _slow_one(self, wish: Wish, mind: random.Random) -> None:
        """Takes a message now and then; everything comes all the same."""
        async with self._native(wish) as socket:
            await _say(socket, "input.text", text=wish.text)
            await _say(socket, "input.done")
            sound, _ = await self._hear(socket, pause_s=mind.uniform(0.02, 0.25))
        self._compare(wish, sound, "slow")

    async def _nonsense_one(self, wish: Wish, mind: random.Random) -> None:
        async with self._native(wish) as socket:
            for _ in range(5):
                await socket.send(mind.choice(NONSENSE) if mind.random() < 0.8 else mind.randbytes(20))
                await asyncio.sleep(0.02)
            try:
                while True:
                    await asyncio.wait_for(socket.recv(), 0.3)
            except TimeoutError:
                return

    async def _http_one(self, wish: Wish, mind: random.Random) -> None:
        body = {"model": "tts-1", "input": wish.text, "response_format": "pcm", **wish.config}
        sound = b""
        async with (
            httpx.AsyncClient(trust_env=False, timeout=STALL_S) as client,
            client.stream("POST", f"{self.http}/v1/audio/speech", json=body) as answer,
        ):
            if answer.status_code != 200:
                await answer.aread()
                raise RequestRefused(answer.json()["error"]["code"])
            stop_after = mind.randrange(200_000) if mind.random() < 0.3 else None
            async for part in answer.aiter_bytes():
                sound += part
                if stop_after is not None and len(sound) > stop_after:
                    return
        self._compare(wish, sound, "http")

    async def _omni_one(self, wish: Wish, mind: random.Random) -> None:
        async with connect(self.url, max_size=None, compression=None) as socket:
            await _say(socket, "session.config", stream_audio=True, response_format="pcm", **wish.config)
            await _say(socket, "input.text", text=wish.text)
            await _say(socket, "input.done")
            sound, _ = await self._hear(socket, end="session.done")
        self._compare(wish, sound, "omni")

    # --- what they do

    def _native(self, wish: Wish) -> Any:
        return _Native(self.url, wish.config)

    async def _polite(self, wish: Wish, *, is_counted: bool, times: list[float] | None = None) -> bytes | None:
        async with self._native(wish) as socket:
            start = time.perf_counter()
            await _say(socket, "input.text", text=wish.text)
            await _say(socket, "input.done")
            try:
                sound, end = await self._hear(socket)
            except RequestRefused:
                self.report.refusal_ms.append(1000 * (time.perf_counter() - start))
                raise
        first_ms = 1000 * (end["first"] - start)
        if times is not None:
            times.append(first_ms)
        if is_counted:
            self.report.ttfa_ms.append(first_ms)
            self.report.begun_ms.append(first_ms - end["metrics"]["queue_ms"])
            self.report.underruns += end["metrics"]["underruns"]
        return sound

    async def _hear(
        self, socket: ClientConnection, *, pause_s: float = 0.0, end: str = "audio.done"
    ) -> tuple[bytes, dict[str, Any]]:
        sound, first = bytearray(), 0.0
        while True:
            message = await socket.recv()
            if pause_s:
                await asyncio.sleep(pause_s)
            if isinstance(message, bytes):
                first = first or time.perf_counter()
                sound += message
                continue
            reply = json.loads(message)
            if reply["type"] == "error":
                raise RequestRefused(reply.get("code", "error"))
            if reply["type"] == end:
                return bytes(sound), {**reply, "first": first}

    def _compare(self, wish: Wish, sound: bytes | None, dialect: str) -> None:
        if sound is not None and _digest(sound) != self.solo[wish.key]:
            self.report.different.append(f"{dialect}: {wish.key}")

    async def _watch(self) -> None:
        begun, report = time.monotonic(), self.report
        every_s = max(SAMPLE_S, 60 * report.minutes / SAMPLES)
        minute: deque[tuple[float, int]] = deque()  # when samples were taken, and how many had been heard by then
        async with httpx.AsyncClient(base_url=self.http, trust_env=False) as client:
            while True:
                active = (await client.get("/ready")).json().get("active", 0)
                self._sample()
                now = time.monotonic()
                minute.append((now, len(report.ttfa_ms)))
                while now - minute[0][0] > MINUTE_S:
                    minute.popleft()
                since = sorted(report.ttfa_ms[minute[0][1] :])
                report.sampled_min.append((now - begun) / 60)
                report.slots_in_use.append(active)
                report.ttfa_p99_ms.append(since[int(0.99 * (len(since) - 1))] if since else None)
                await asyncio.sleep(every_s)

    def _sample(self) -> None:
        """What the kernel knows of the runtime's processes."""
        found = of_processes(self.pid)
        self.report.rss_mib.append(found["rss_mib"])
        self.report.threads.append(found["threads"])
        self.report.files.append(found["files"])


class RequestRefused(Exception):
    """The server said no."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class _Native:
    """A configured socket of the native protocol."""

    def __init__(self, url: str, config: dict[str, Any]) -> None:
        self._connecting = connect(url, subprotocols=[PROTOCOL], max_size=None, compression=None)  # type: ignore[list-item]
        self._config = config

    async def __aenter__(self) -> ClientConnection:
        connection = await self._connecting.__aenter__()
        created = json.loads(await connection.recv())
        if created["type"] == "error":
            raise RequestRefused(created["code"])
        await _say(connection, "session.config", **self._config)
        return connection

    async def __aexit__(self, *error: Any) -> None:
        await self._connecting.__aexit__(*error)


async def _say(socket: ClientConnection, kind: str, **fields: Any) -> None:
    await socket.send(json.dumps({"type": kind, **fields}))


def _digest(sound: bytes) -> str:
    return hashlib.blake2b(sound, digest_size=16).hexdigest()


def wishes_of(card: dict[str, Any], count: int, seed: int) -> list[Wish]:
    """Requests over every mode of a loaded model."""
    mind = random.Random(seed)
    wishes = []
    reference = recording_base64(2.0)
    for number in range(count):
        mode = card["modes"][number % len(card["modes"])]
        config: dict[str, Any] = {"task_type": mode, "seed": mind.randrange(10_000), "language": "english"}
        config["max_frames"] = mind.randrange(12, 40)
        if mode == "custom_voice":
            config["voice"] = mind.choice(card["speakers"])
        elif mode == "voice_design":
            config["instructions"] = mind.choice(DESIGNS)
        else:
            config |= {"ref_audio": reference, "x_vector_only_mode": True}
        if config["language"] not in card["languages"]:
            config["language"] = "auto"
        wishes.append(Wish(TEXTS[number % len(TEXTS)], config))
    return wishes


# Shares of the clients; the well-behaved are the ones whose TTFA counts.
KINDS = ("polite", "cancel", "http", "slow", "polite", "hangup", "live", "omni", "nonsense", "polite", "cancel", "http")


async def soak(arguments: argparse.Namespace) -> Report:
    """Start a runtime, hear everything alone, then abuse it."""
    options = [option for model in arguments.model or [] for option in ("--model", model)]
    options += ["--max-slots", str(arguments.slots)]
    environment = {"VOICEWRIGHT_MAX_WAITING": str(arguments.waiting)}
    async with runtime_process(options, environment) as runtime:
        async with httpx.AsyncClient(trust_env=False) as client:
            card = (await client.get(f"{runtime.url}/v1/models")).json()["data"][0]
        clients = arguments.clients or 2 * arguments.slots
        report = Report(minutes=arguments.minutes, slots=arguments.slots, clients=clients)
        wishes = wishes_of(card, arguments.wishes, arguments.seed)
        run = Soak(runtime, wishes, report, arguments.seed, arguments.pause)
        await run.prepare()
        await run.run(arguments.minutes, [KINDS[number % len(KINDS)] for number in range(report.clients)])
        return report


def main() -> int:
    """Run, print, and say by the exit status whether every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--slots", type=int, default=6)
    parser.add_argument("--clients", type=int, help="twice as many as slots if not given")
    parser.add_argument(
        "--pause",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="that a client rests between its requests, at a mean",
    )
    parser.add_argument(
        "--waiting", type=int, default=0, help="places in the line; with none the rest is refused at once"
    )
    parser.add_argument("--wishes", type=int, default=18, help="different requests")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", action="append", metavar="[MODE=]PATH_OR_ID")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw memory, slots and TTFA over the minutes")
    arguments = parser.parse_args()
    report = asyncio.run(soak(arguments))
    if arguments.picture is not None:
        arguments.picture.write_text(report.picture, encoding="utf-8")
    figures = report.summary() | {"broken": report.broken}
    if arguments.json:
        print(json.dumps(figures | {"different": report.different[:10]}, indent=2))
    else:
        print("\n".join(f"| {name} | {value} |" for name, value in figures.items()))
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
