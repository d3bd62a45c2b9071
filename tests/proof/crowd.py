"""Measurements with many clients: resource leaks, and a load of four times the capacity."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.common.servers import BenchRuntime
from tests.support.speech_client import Talk, talk

TOGETHER = 12
QUIET_S = 20.0  # Timeout in seconds until all resources are released.
FRAMES = 6  # Maximum number of frames of a request.
AT_ONCE_MS = 1000  # Maximum milliseconds of an immediate refusal. A later refusal means that the request was queued.


@dataclass(frozen=True, slots=True)
class Held:
    """Resources in use by the runtime, such as threads and memory.

    The values come from the kernel and from the runtime itself.
    """

    busy: int  # Number of requests in slots or in the queue, plus open sessions.
    threads: int
    files: int
    resident_kib: int


async def held(runtime: BenchRuntime) -> Held:
    async with httpx.AsyncClient(base_url=runtime.url, trust_env=False) as client:
        load = (await client.get("/ready")).json()
        page = (await client.get("/metrics")).text
    sessions = sum(float(line.split()[1]) for line in page.splitlines() if line.startswith("voicewright_sessions{"))
    return Held(load["active"] + load["waiting"] + load["waiting_for_text"] + int(sessions), *_of_process(runtime.pid))


def _of_process(pid: int) -> tuple[int, int, int]:
    process = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line)
    return int(status["Threads"]), len(list((process / "fd").iterdir())), int(status["VmRSS"].split()[0])


async def at_rest(runtime: BenchRuntime) -> Held:
    """Wait until no request is running, and return the resources that the runtime uses.

    The wait has a timeout.
    """
    late = time.monotonic() + QUIET_S
    while (now := await held(runtime)).busy and time.monotonic() < late:  # noqa: ASYNC110 - another process has no event
        await asyncio.sleep(0.05)
    return now


@dataclass(slots=True)
class CrowdReport:
    """Results of many short requests, with the used resources after each tenth of them."""

    ends: dict[str, int] = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)

    @property
    def kib_per_1000(self) -> float:
        """Return the growth of the runtime's memory in KiB per 1000 requests.

        The memory is the resident memory. The first requests are not counted, because they fill caches.
        """
        count = sum(self.ends.values()) * (len(self.held) - 3) / (len(self.held) - 1)
        return (self.held[-1].resident_kib - self.held[2].resident_kib) / count * 1000

    @property
    def figure(self) -> str:
        first, last = self.held[0], self.held[-1]
        ends = ", ".join(f"{count} {what}" for what, count in sorted(self.ends.items()))
        return (
            f"{sum(self.ends.values())} requests ({ends}): {last.busy} slots or sessions left, threads "
            f"{last.threads - first.threads:+d}, files {last.files - first.files:+d}, "
            f"memory {self.kib_per_1000:+.0f} KiB a thousand"
        )


async def crowd(runtime: BenchRuntime, count: int, seed: int = 1) -> CrowdReport:
    """Send `count` short requests, some concurrently, and return results and used resources.

    Of ten requests on average, three are cancelled, one disconnects, one reads slowly and five are normal.
    """
    report, dice = CrowdReport(), random.Random(seed)
    for kind in ("polite", "cancelled", "hung up", "slow"):  # The first requests create threads and caches.
        await _short(runtime, kind, dice)
    report.held.append(await at_rest(runtime))
    for _ in range(10):
        kinds = dice.choices(["polite", "cancelled", "hung up", "slow"], [5, 3, 1, 1], k=count // 10)

        async def work(kinds: list[str]) -> None:
            while kinds:
                kind = kinds.pop()
                report.ends[kind] = report.ends.get(kind, 0) + 1
                await _short(runtime, kind, dice)

        await asyncio.gather(*(work(kinds) for _ in range(TOGETHER)))
        report.held.append(await at_rest(runtime))
    return report


async def _short(runtime: BenchRuntime, kind: str, dice: random.Random) -> None:
    config = {"task_type": "custom_voice", "max_frames": dice.randint(1, FRAMES), "seed": dice.randrange(100)}
    async with talk(runtime.stream, **config) as session:
        await session.send_text("The bread is warm.")
        match kind:
            case "cancelled":
                await asyncio.sleep(dice.random() * 0.1)
                await session.send("context.cancel")
                await session.receive_until("context.cancelled", "audio.done", "error")
            case "hung up":
                await asyncio.sleep(dice.random() * 0.1)
                session.connection.transport.abort()
            case _:
                await _heard(session, dice.random() * 0.05 if kind == "slow" else 0.0)


async def _heard(session: Talk, pause_s: float) -> None:
    while True:
        message = await session.receive()
        if isinstance(message, dict) and message["type"] in ("audio.done", "error"):
            return
        await asyncio.sleep(pause_s)


@dataclass(slots=True)
class Load:
    """Response times of requests during a load, in milliseconds.

    `served_ms` are the times to the first audio of served requests. `refused_ms` are the times to the error of refused
    requests.
    """

    served_ms: list[float] = field(default_factory=list)
    refused_ms: list[float] = field(default_factory=list)
    estimates: int = 0  # Number of refusals with an estimate of the waiting time.

    @property
    def figure(self) -> str:
        return (
            f"{len(self.served_ms)} served, first sound {statistics.median(self.served_ms):.0f} ms at the median; "
            f"{len(self.refused_ms)} refused in {statistics.median(self.refused_ms):.0f} ms (p50), "
            f"{p95(self.refused_ms):.0f} (p95), {self.estimates} with an estimate"
        )


@dataclass(slots=True)
class OverloadReport:
    """Results of requests before, during and after an overload."""

    alone: Load = field(default_factory=Load)
    full: Load = field(default_factory=Load)  # Response times with as many clients as slots.
    rate: float = 0.0  # Requests per second with the full load.
    overload: Load = field(default_factory=Load)  # Response times with four times as many requests per second.
    pressed: Load = field(default_factory=Load)  # Response times with four times as many clients, which do not wait.
    recovered_ms: float = 0.0  # Milliseconds to the first audio of the first request after the overload.

    @property
    def figure(self) -> str:
        alone, full = statistics.median(self.alone.served_ms), statistics.median(self.full.served_ms)
        return (
            f"first sound {alone:.0f} ms alone, {full:.0f} with every slot taken ({self.rate:.1f} requests a second); "
            f"4 times as many a second: {self.overload.figure}; 4 times as many clients, who come again 0.1 s after "
            f"each refusal: {self.pressed.figure}; the first request afterwards {self.recovered_ms:.0f} ms"
        )


def p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))]


async def overload(runtime: BenchRuntime, slots: int, seconds: float) -> OverloadReport:
    """Measure full load and overload of a runtime, and return a report.

    One overload has four times as many requests per second, and another has four times as many clients. The measurement
    of full load takes a tenth of `seconds`, the first overload takes `seconds`, and the second takes a fifth. The
    runtime has no queue.
    """
    report = OverloadReport()
    for _ in range(10):
        await _request(runtime, report.alone)
    report.rate = await _capacity(runtime, slots, report.full, seconds / 10)
    await _offer(runtime, 4 * report.rate, report.overload, seconds)
    await _clients(runtime, 4 * slots, report.pressed, seconds / 5)
    after = Load()
    await _request(runtime, after)
    report.recovered_ms = after.served_ms[0]
    return report


async def queue(runtime: BenchRuntime, slots: int, seconds: float) -> str:
    """Send requests at four times the capacity, with the default queue, and return a summary."""
    load = Load()
    rate = await _capacity(runtime, slots, Load(), seconds / 10)
    await _offer(runtime, 4 * rate, load, seconds)
    at_once = [ms for ms in load.refused_ms if ms < AT_ONCE_MS]
    waited = [ms for ms in load.refused_ms if ms >= AT_ONCE_MS]
    return (
        f"4 times as many requests a second as {slots} slots serve, for {seconds:.0f} s, with the places of the "
        f"default: {len(load.served_ms)} served, first sound after {statistics.median(load.served_ms) / 1000:.1f} s "
        f"(p50), {p95(load.served_ms) / 1000:.1f} (p95); {len(at_once)} refused in {statistics.median(at_once):.0f} ms "
        f"(p50), {p95(at_once):.0f} (p95); {len(waited)} after a wait; {load.estimates} of {len(load.refused_ms)} with "
        "an estimate"
    )


async def _request(runtime: BenchRuntime, load: Load) -> bool:
    """Send one request, record its duration, and return True if it was served."""
    ms, refusal = await _first(runtime)
    if refusal is None:
        load.served_ms.append(ms)
        return True
    load.refused_ms.append(ms)
    load.estimates += refusal.get("retry_after_s", 0) > 0
    return False


async def _clients(runtime: BenchRuntime, count: int, load: Load, for_s: float) -> None:
    """Run clients that send a request after each reply, or 0.1 seconds after a refusal."""
    until = time.monotonic() + for_s

    async def client() -> None:
        while time.monotonic() < until:
            if not await _request(runtime, load):
                await asyncio.sleep(0.1)

    await asyncio.gather(*(client() for _ in range(count)))


async def _capacity(runtime: BenchRuntime, slots: int, load: Load, for_s: float) -> float:
    """Return the measured capacity in requests per second, with as many clients as slots."""
    began = time.monotonic()
    await _clients(runtime, slots, load, for_s)
    assert not load.refused_ms, "one was refused though there was a slot for it"
    return len(load.served_ms) / (time.monotonic() - began)


async def _offer(runtime: BenchRuntime, rate: float, load: Load, for_s: float) -> None:
    """Send `rate` requests per second, regardless of their results."""
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(round(for_s * rate)):
            await asyncio.sleep(began + number / rate - time.monotonic())
            group.create_task(_request(runtime, load))


async def _first(runtime: BenchRuntime) -> tuple[float, dict[str, Any] | None]:
    """Return the milliseconds to the first audio or the refusal, and the refusal or None."""
    async with talk(runtime.stream, task_type="custom_voice", max_frames=12, seed=1) as session:
        began = time.perf_counter()
        await session.send_text("The bread is warm.")
        while not isinstance(message := await session.receive(), bytes):
            if message["type"] == "error":
                return 1000 * (time.perf_counter() - began), message
        ms = 1000 * (time.perf_counter() - began)
        await _heard(session, 0.0)
        return ms, None
