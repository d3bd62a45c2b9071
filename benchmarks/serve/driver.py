"""Execution of a load plan, in one event loop or in several client processes."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import httpx

from benchmarks.common.metrics import RequestTrace
from benchmarks.serve.clients import SocketClient
from benchmarks.serve.plan import Call, Plan

START_DELAY_S = 0.05  # Delay in seconds before the first request of an open loop.
START_TIMEOUT_S = 300.0  # Timeout in seconds until all processes have connected and uploaded.


async def drive(plan: Plan, client: SocketClient) -> list[RequestTrace]:
    """Send all requests of a load plan, wait for their end, and return their measured times."""
    gc.collect()
    gc.freeze()  # A garbage collection in this process would look like a delay of the server.
    if not plan.clients:
        began = time.perf_counter_ns() + round(1e9 * START_DELAY_S)
        return list(await asyncio.gather(*(_call_at_time(call, plan, client, began) for call in plan.calls)))
    calls, traces = iter(plan.calls), []

    async def keep_calling() -> None:
        for call in calls:
            traces.append(await client.speak(call, plan.load))

    await asyncio.gather(*(keep_calling() for _ in range(plan.clients)))
    return traces


async def _call_at_time(call: Call, plan: Plan, client: SocketClient, began: int) -> RequestTrace:
    due = began + round(1e9 * call.at_s)
    await asyncio.sleep((due - time.perf_counter_ns()) / 1e9)
    trace = await client.speak(call, plan.load)
    trace.due_ns = due
    return trace


class ClientProcesses:
    """Pool of client processes, which run separately from the server process."""

    def __init__(self, pool: ProcessPoolExecutor, count: int) -> None:
        self._pool = pool
        self._count = count

    async def drive(self, url: str, plan: Plan) -> list[RequestTrace]:
        """Send all requests of a load plan to a runtime, and return their measured times.

        Args:
            url: HTTP URL of the runtime.
            plan: Load plan, which is divided among the processes.

        Returns:
            The times of each request, sorted by the time of sending.
        """
        loop, shares = asyncio.get_running_loop(), plan.split(self._count)
        shares += [Plan(plan.load, 0, ())] * (self._count - len(shares))
        results = await asyncio.gather(*(loop.run_in_executor(self._pool, _drive, url, share) for share in shares))
        return sorted((trace for traces in results for trace in traces), key=lambda trace: trace.sent_ns)


@contextmanager
def client_processes(count: int = 1) -> Iterator[ClientProcesses]:
    """Yield a pool of client processes, and end the processes on exit.

    The processes start at their first use.
    """
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(count)
    with ProcessPoolExecutor(count, context, initializer=_share_barrier, initargs=(barrier,)) as pool:
        yield ClientProcesses(pool, count)


_barriers: list[Barrier] = []  # Barrier of this client process, at which all processes wait before they start.


def _share_barrier(barrier: Barrier) -> None:
    _barriers.append(barrier)


def _drive(url: str, plan: Plan) -> list[RequestTrace]:
    return asyncio.run(_drive_sockets(url, plan))


async def _drive_sockets(url: str, plan: Plan) -> list[RequestTrace]:
    client: SocketClient | None = None
    if plan.calls:
        async with httpx.AsyncClient(trust_env=False) as http:
            cards = (await http.get(f"{url}/v1/models")).json()["data"]
        stream = url.replace("http", "ws", 1) + "/v1/audio/speech/stream"
        client = SocketClient(stream, next(card for card in cards if plan.load.mode in card["modes"]))
        await client.prepare(plan)
    await asyncio.to_thread(_barriers[0].wait, START_TIMEOUT_S)
    if client is None:
        return []
    try:
        return await drive(plan, client)
    finally:
        await client.close()
