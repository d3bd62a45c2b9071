"""Target runtimes of a load test: started by the benchmark, or already running."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.metrics import RequestTrace
from benchmarks.common.servers import busy_slots, process_usage, runtime_process
from benchmarks.common.variants import Environment, Variant
from benchmarks.common.voices import store_voice
from benchmarks.serve.driver import ClientProcesses, client_processes
from benchmarks.serve.plan import Plan


@dataclass(frozen=True, slots=True)
class Target:
    """Target runtime of a load test, at a URL.

    `name` is the name of the variant or the server. `pid` is None if this benchmark has not started the runtime.
    """

    name: str
    url: str
    clients: ClientProcesses
    pid: int | None = None
    start_s: float = 0.0

    async def drive(self, plan: Plan) -> list[RequestTrace]:
        return await self.clients.drive(self.url, plan)

    async def busy(self) -> int:
        return await busy_slots(self.url)

    def usage(self) -> dict[str, Any]:
        return {} if self.pid is None else process_usage(self.pid)


@asynccontextmanager
async def open_targets(
    variants: Sequence[Variant],
    shared: Environment,
    *,
    urls: Sequence[tuple[str, str]] = (),
    processes: int = 1,
) -> AsyncIterator[list[Target]]:
    """Start a runtime for each variant and terminate it on exit, or use running servers.

    Args:
        variants: Variants of the settings. They are ignored if `urls` is not empty.
        shared: Environment variables of all variants.
        urls: Names and URLs of running servers.
        processes: Number of client processes.
    """
    async with AsyncExitStack() as stack:
        clients = stack.enter_context(client_processes(processes))
        if urls:
            yield [Target(name, url, clients) for name, url in urls]
            return
        voices = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store_voice(voices)
        targets = []
        for variant in variants:
            environment = {**shared, "VOICEWRIGHT_VOICES": str(voices), **variant.environment}
            began = time.perf_counter()
            runtime = await stack.enter_async_context(runtime_process([], environment))
            took = round(time.perf_counter() - began, 1)
            targets.append(Target(variant.name, runtime.url, clients, runtime.pid, took))
        yield targets
