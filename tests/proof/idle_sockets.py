"""Measurement of thousands of idle sockets: their limit and their effect on other clients."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from contextlib import AsyncExitStack

from websockets.exceptions import InvalidStatus

from benchmarks.common.servers import BenchRuntime
from runtime.shared.system import limit_process, max_files
from tests.proof.crowd import held
from tests.support.speech_client import talk

SPEAKERS, TIMES = 8, 5
VOICE = {"task_type": "custom_voice", "seed": 11, "max_frames": 12}
SPARE = 4  # Number of additional connections for requests of the metrics.
AT_ONCE = 25  # Number of concurrent handshakes.
REFUSED = 20


def as_many_as_allowed(count: int) -> int:
    """Return the number of idle sockets that this process can open, at most `count`.

    The file limit of this process is increased accordingly. A port accepts half as many sockets as the file limit of
    its process (`runtime/shared/port/connections/meters.py`).
    """
    most = max_files(at_most=True)
    if most is None:
        return count
    limit_process(RLIMIT_NOFILE=most)
    return min(count, most // 2 - SPEAKERS - SPARE - AT_ONCE)


async def measure_idle_sockets(runtime: BenchRuntime, count: int, times: int = TIMES) -> str:
    """Measure active clients while `count` sockets are idle, and return a summary.

    Each active client requests speech for `times` texts. Then sockets above the connection limit are opened and
    refused.

    Raises:
        AssertionError: A socket was refused below the limit, accepted above it, or refused without a retry time.
    """
    await _first_sounds_ms(runtime, 1)  # The first requests create threads and caches.
    alone_ms = await _first_sounds_ms(runtime, times)
    before = await held(runtime)
    async with AsyncExitStack() as stack:
        await _sit(stack, runtime, count)
        beside_ms = await _first_sounds_ms(runtime, times)
        with_them = await held(runtime)
        refused_ms = statistics.median(await _refusals_ms(stack, runtime))
    kib = (with_them.resident_kib - before.resident_kib) / count
    return (
        f"{count} idle sockets, {kib:.0f} KiB each: first sound of {SPEAKERS} who speak together "
        f"{statistics.median(beside_ms):.0f} ms at the median ({statistics.median(alone_ms):.0f} without them); "
        f"beyond the limit {REFUSED} of {REFUSED} refused with an estimate, in {refused_ms:.0f} ms"
    )


async def _sit(stack: AsyncExitStack, runtime: BenchRuntime, count: int) -> None:
    """Open `count` idle sessions, which stay open until the exit stack is closed."""
    for start in range(0, count, AT_ONCE):
        opening = (talk(runtime.stream, **VOICE) for _ in range(min(AT_ONCE, count - start)))
        await asyncio.gather(*(stack.enter_async_context(session) for session in opening))


async def _first_sounds_ms(runtime: BenchRuntime, times: int) -> list[float]:
    """Return the milliseconds from text to first audio of several concurrent clients."""

    async def speaker() -> list[float]:
        times_ms = []
        async with talk(runtime.stream, **VOICE) as session:
            for _ in range(times):
                began = time.perf_counter()
                await session.send_text("The bread is warm.")
                while not isinstance(await session.receive(), bytes):
                    pass
                times_ms.append(1000 * (time.perf_counter() - began))
                await session.receive_take()
        return times_ms

    each_ms = await asyncio.gather(*(speaker() for _ in range(SPEAKERS)))
    return [ms for times_ms in each_ms for ms in times_ms]


async def _refusals_ms(stack: AsyncExitStack, runtime: BenchRuntime) -> list[float]:
    """Return the milliseconds of refused WebSocket handshakes.

    Accepted connections stay open until the exit stack is closed.
    """
    refusals_ms: list[float] = []
    admit_waiting = 0
    while len(refusals_ms) < REFUSED:
        began = time.perf_counter()
        try:
            await stack.enter_async_context(talk(runtime.stream, **VOICE))
        except InvalidStatus as refusal:
            refusals_ms.append(1000 * (time.perf_counter() - began))
            _check(refusal)
        else:
            admit_waiting += 1
            assert admit_waiting <= SPEAKERS + SPARE, "more than the limit were let in"
    return refusals_ms


def _check(refusal: InvalidStatus) -> None:
    answer = json.loads(refusal.response.body or b"{}")
    assert answer["error"]["code"] == "too_many_connections"
    assert int(refusal.response.headers["retry-after"]) > 0
