"""Measurements with misbehaving clients: disconnects, cancels, stalls and huge uploads."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

from benchmarks.common.servers import BenchRuntime, with_child_processes
from runtime.request import SAMPLE_RATE
from tests.proof.crowd import Held, at_rest, held
from tests.support.audio_files import audio_file
from tests.support.processes import runs
from tests.support.raw_websocket import HANDSHAKE, deaf_socket, message
from tests.support.speech_client import talk

LONG = {"task_type": "custom_voice", "seed": 11, "max_frames": 4000}
SHORT = {"task_type": "custom_voice", "seed": 11, "max_frames": 12}
HEARD = {"task_type": "custom_voice", "seed": 11, "max_frames": 60}
FRAMES = "voicewright_frames_total "
DEAF, NEIGHBOURS = 20, 20
BOMB_S = 1800  # Seconds of silence in an uploaded recording. Its 135 kB of FLAC decode to 86 MB.
TOGETHER = 8


def quantile(values: list[float], part: float) -> float:
    return sorted(values)[int(part * (len(values) - 1))]


async def frames_made(client: httpx.AsyncClient) -> int:
    page = (await client.get("/metrics")).text
    return round(next(float(line.split()[1]) for line in page.splitlines() if line.startswith(FRAMES)))


@dataclass(slots=True)
class DisconnectsReport:
    """Results of clients that disconnect or cancel while they receive audio."""

    freed_ms: list[float] = field(default_factory=list)  # Milliseconds from the disconnect until no slot is in use.
    # Number of frames that were generated between the disconnect and the release of the slot.
    wasted: list[int] = field(default_factory=list)
    cancelled_ms: list[float] = field(default_factory=list)  # Milliseconds from the cancel to its response.
    after: int = 0  # Number of audio chunks that arrived after the response to a cancel.
    held: tuple[Held, Held] | None = None  # Resources of the runtime before the first client and after the last client.

    @property
    def figure(self) -> str:
        assert self.held is not None
        before, after = self.held
        return (
            f"{len(self.freed_ms)} hang-ups in mid-reply: slot free after {quantile(self.freed_ms, 0.5):.0f} ms (p50), "
            f"{quantile(self.freed_ms, 0.99):.0f} (p99), at most {max(self.wasted)} frames made meanwhile; "
            f"{len(self.cancelled_ms)} cancels answered in {quantile(self.cancelled_ms, 0.5):.0f} ms (p50), "
            f"{quantile(self.cancelled_ms, 0.99):.0f} (p99), {self.after} sounds after it; "
            f"threads {after.threads - before.threads:+d}, files {after.files - before.files:+d}"
        )


async def disconnects(runtime: BenchRuntime, count: int) -> DisconnectsReport:
    """Disconnect and cancel after the first audio, `count` times each, and return a report."""
    report = DisconnectsReport()
    async with httpx.AsyncClient(base_url=runtime.url, trust_env=False) as client:
        for _ in range(3):  # The first requests create threads and caches.
            await _hang_up(runtime, client, DisconnectsReport())
            await _cancel(runtime, DisconnectsReport())
        before = await at_rest(runtime)
        for _ in range(count):
            await _hang_up(runtime, client, report)
            await _cancel(runtime, report)
        report.held = before, await at_rest(runtime)
    assert not report.after, "sound came after a cancel"
    return report


async def _hang_up(runtime: BenchRuntime, client: httpx.AsyncClient, report: DisconnectsReport) -> None:
    async with talk(runtime.stream, **LONG) as session:
        await session.send_text("Speak for a long time.")
        await session.first_audio()
        made = await frames_made(client)
        session.connection.transport.abort()
        began = time.perf_counter()
        while (await client.get("/ready")).json()["active"]:
            pass
        report.freed_ms.append(1000 * (time.perf_counter() - began))
        report.wasted.append(await frames_made(client) - made)


async def _cancel(runtime: BenchRuntime, report: DisconnectsReport) -> None:
    async with talk(runtime.stream, **LONG) as session:
        await session.send_text("Speak for a long time.")
        await session.first_audio()
        began = time.perf_counter()
        await session.send("context.cancel")
        await session.receive_until("context.cancelled")
        report.cancelled_ms.append(1000 * (time.perf_counter() - began))
        await session.send("ping", t=1)
        report.after += isinstance(await session.receive(), bytes)


async def stalled_readers(runtime: BenchRuntime, send_s: float) -> str:
    """Measure 20 clients that read nothing, and return a summary of their effect.

    The summary has the runtime's memory, and the delays of another client's audio. The runtime has more slots than
    there are clients. `send_s` is its timeout for such clients in seconds.
    """
    alone = [await _heard(runtime) for _ in range(NEIGHBOURS)]
    before = await held(runtime)
    crowd = await asyncio.gather(*(_deaf(runtime) for _ in range(DEAF)))
    began = time.perf_counter()
    beside = [await _heard(runtime) for _ in range(NEIGHBOURS)]
    most = before.resident_kib
    while (now := await held(runtime)).busy:
        most = max(most, now.resident_kib)
        await asyncio.sleep(0.1)
    gone_s = time.perf_counter() - began
    for each in crowd:
        each.close()
    whole = sum(each.pcm == alone[0].pcm for each in beside)
    first_ms = [statistics.median(each.first_ms for each in replies) for replies in (beside, alone)]
    late_ms = [max(each.late_ms for each in replies) for replies in (beside, alone)]
    return (
        f"{DEAF} who read nothing, {send_s:.0f} s allowed: all gone after {gone_s:.1f} s, at most "
        f"{(most - before.resident_kib) / 1024:.0f} MiB more; {whole} of {len(beside)} replies of a neighbour are "
        f"whole, first audio {first_ms[0]:.0f} ms ({first_ms[1]:.0f} alone), the latest piece {late_ms[0]:.0f} ms "
        f"late for playback ({late_ms[1]:.0f} alone)"
    )


@dataclass(slots=True)
class _Heard:
    """Audio of a reply, its time to first audio, and the maximum delay of a chunk.

    The delay is measured as if the client had no playback buffer.
    """

    pcm: bytes = b""
    first_ms: float = 0.0
    late_ms: float = 0.0


async def _heard(runtime: BenchRuntime) -> _Heard:
    heard = _Heard()
    async with talk(runtime.stream, **HEARD) as session:
        began = time.perf_counter()
        await session.send_text("The bread is warm.")
        while isinstance(message := await session.receive(), bytes) or message["type"] != "audio.done":
            if isinstance(message, bytes):
                now_ms = 1000 * (time.perf_counter() - began)
                heard.first_ms = heard.first_ms or now_ms
                played_ms = 1000 * len(heard.pcm) / (2 * SAMPLE_RATE)
                heard.late_ms = max(heard.late_ms, now_ms - heard.first_ms - played_ms)
                heard.pcm += message
    return heard


async def _deaf(runtime: BenchRuntime) -> socket.socket:
    """Request a reply that fills all buffers, and return the socket, which is never read."""
    kernel = deaf_socket(int(runtime.url.rpartition(":")[2]))
    kernel.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(kernel, HANDSHAKE)
    said = b""
    while b"session.created" not in said:
        said += await loop.sock_recv(kernel, 4096)
    text = message(type="input.text", text="Speak for a long time.")
    await loop.sock_sendall(kernel, message(type="session.config", **LONG) + text + message(type="input.done"))
    while b"audio.start" not in said:
        said += await loop.sock_recv(kernel, 1)
    return kernel


async def drain(runtime: BenchRuntime, streams: int) -> str:
    """Send SIGTERM to a runtime while responses are sent, and return a summary.

    The runtime must complete all `streams` responses.
    """
    ready, is_terminating = asyncio.Semaphore(0), asyncio.Event()

    async def reply() -> bool:
        async with talk(runtime.stream, **(SHORT | {"max_frames": 30})) as session:
            await session.send_text("Let me finish.")
            await session.first_audio()
            ready.release()
            await is_terminating.wait()
            return (await session.receive_take()).end["type"] == "audio.done"

    replies = [asyncio.create_task(reply()) for _ in range(streams)]
    for _ in replies:
        await ready.acquire()
    os.kill(runtime.pid, signal.SIGTERM)
    began = time.perf_counter()
    is_terminating.set()
    finished = sum(await asyncio.gather(*replies))
    assert finished == streams, f"{finished} of {streams} replies were finished"
    last_s = time.perf_counter() - began
    while runs(runtime.pid):  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.01)
    ended_s = time.perf_counter() - began - last_s
    return f"SIGTERM under {streams} replies: {finished} finished, the process ended {ended_s:.1f} s after the last"


async def bombs(runtime: BenchRuntime, count: int) -> str:
    """Upload recordings that are too long and must be refused, and return a summary.

    Each recording has half an hour of audio. Every second recording does not declare its length.
    """
    honest = audio_file(np.zeros(BOMB_S * 24_000, np.int16), kind="FLAC")
    silent = bytearray(honest)
    silent[21] &= 0xF0  # STREAMINFO stores the number of samples in 36 bits. The value 0 means unknown.
    silent[22:26] = bytes(4)
    left, statuses, peaks = list(range(count)), [], [0, 0]
    async with httpx.AsyncClient(base_url=runtime.url, trust_env=False, timeout=120) as client:
        before = (await held(runtime)).resident_kib

        async def work() -> None:
            while left:
                number = left.pop()
                sound = honest if number % 2 else bytes(silent)
                files = {"audio_sample": ("a.flac", sound, "audio/flac")}
                form = {"name": f"Bomb {number}", "consent": "A test's own."}
                statuses.append((await client.post("/v1/audio/voices", data=form, files=files)).status_code)

        async def watch() -> None:
            while True:
                own, children = _resident_kib(runtime.pid)
                peaks[:] = max(peaks[0], own), max(peaks[1], children)
                await asyncio.sleep(0.01)

        watching, began = asyncio.create_task(watch()), time.perf_counter()
        await asyncio.gather(*(work() for _ in range(TOGETHER)))
        seconds = time.perf_counter() - began
        watching.cancel()
    assert all(400 <= status < 500 for status in statuses), set(statuses)
    refused, more = sum(400 <= status < 500 for status in statuses), max(0, peaks[0] - before) / 1024
    return (
        f"{count} recordings of {len(honest) // 1000} kB that unpack to {BOMB_S * 48_000 // 10**6} MB, {TOGETHER} at "
        f"once: {refused} refused in {seconds:.0f} s; the process grew by {more:.0f} MiB at "
        f"most, its decoders had {peaks[1] / 1024:.0f} MiB together at most"
    )


def _resident_kib(pid: int) -> tuple[int, int]:
    """Return the resident memory of a process, and that of all its children, in KiB."""
    _, *children = with_child_processes(pid)
    return _pages(pid), sum(_pages(child) for child in children)


def _pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    except (OSError, IndexError):
        return 0
