"""Targets of a load test: settings with a transport, or a running server."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.arms import Arm, Environment
from benchmarks.common.metrics import Trace
from benchmarks.common.servers import busy_slots, process_usage, runtime_process, settle
from benchmarks.common.voices import store_voice
from benchmarks.serve.clients import EngineClient
from benchmarks.serve.driver import ClientProcesses, client_processes, drive
from benchmarks.serve.plan import Plan
from runtime.engine.engine import Engine

TRANSPORTS = ("engine", "websocket")


class EngineEndpoint:
    """In-process engine as the target of a load plan."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def drive(self, plan: Plan) -> list[Trace]:
        client = EngineClient(self._engine)
        await client.prepare(plan)
        return await drive(plan, client)

    async def busy(self) -> int:
        """Return the number of requests that still use or need a slot when all calls have ended.

        The engine's load is polled until the number is 0 or a timeout has passed.
        """

        async def busy() -> int:
            load = self._engine.load()
            return load.active + load.waiting

        return await settle(busy)

    def usage(self) -> dict[str, Any]:
        """Return memory, threads and open files of this process, or {} if unknown."""
        return process_usage(os.getpid())


class SocketEndpoint:
    """Runtime at a URL as the target of a load plan.

    `pid` is the pid of the runtime if this benchmark has started the runtime.
    """

    def __init__(self, url: str, clients: ClientProcesses, pid: int | None = None) -> None:
        self._url = url
        self._pid = pid
        self._clients = clients

    async def drive(self, plan: Plan) -> list[Trace]:
        return await self._clients.drive(self._url, plan)

    async def busy(self) -> int:
        return await busy_slots(self._url)

    def usage(self) -> dict[str, Any]:
        return {} if self._pid is None else process_usage(self._pid)


@dataclass(frozen=True, slots=True)
class Target:
    """Endpoint of a load test with its arm and its transport."""

    arm: str
    transport: str
    endpoint: EngineEndpoint | SocketEndpoint
    start_s: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.arm} {self.transport}".strip()


@asynccontextmanager
async def open_targets(
    arms: Sequence[Arm],
    transports: Sequence[str],
    shared: Environment,
    *,
    urls: Sequence[tuple[str, str]] = (),
    processes: int = 1,
) -> AsyncIterator[list[Target]]:
    """Open all arms with all transports together, or connect to running servers.

    Args:
        shared: Environment variables of all arms.
        processes: Number of client processes.
    """
    async with AsyncExitStack() as stack:
        clients = stack.enter_context(client_processes(processes))
        if urls:
            yield [Target(name, "", SocketEndpoint(url, clients)) for name, url in urls]
            return
        voices = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store_voice(voices)
        targets = []
        for arm in arms:
            environment = {**shared, "VOICEWRIGHT_VOICES": str(voices), **arm.environment}
            for transport in transports:
                began = time.perf_counter()
                endpoint: EngineEndpoint | SocketEndpoint
                if transport == "engine":
                    engine = await asyncio.to_thread(Engine.open, arm.settings(environment))
                    stack.push_async_callback(asyncio.to_thread, engine.close)
                    engine.start()
                    endpoint = EngineEndpoint(engine)
                else:
                    runtime = await stack.enter_async_context(runtime_process([], environment))
                    endpoint = SocketEndpoint(runtime.url, clients, runtime.pid)
                took = round(time.perf_counter() - began, 1)
                targets.append(Target(arm.name if len(arms) > 1 else "", transport, endpoint, took))
        yield targets
