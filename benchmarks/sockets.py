"""A real runtime process on loopback."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks.child import started


@dataclass(frozen=True, slots=True)
class BenchRuntime:
    """A runtime that answers."""

    url: str
    pid: int

    @property
    def stream(self) -> str:
        """The address of its WebSocket."""
        return self.url.replace("http", "ws", 1) + "/v1/audio/speech/stream"


@asynccontextmanager
async def runtime_process(
    arguments: list[str], environment: Mapping[str, str] | None = None
) -> AsyncIterator[BenchRuntime]:
    """Start `voicewright runtime` on a free port; yields it once it is ready."""
    variables = {**os.environ, "VOICEWRIGHT_HOST": "127.0.0.1", **(environment or {})}
    async with started("runtime.cli", "runtime", "--port", "0", *arguments, environment=variables) as child:
        line = await child.line()
        if " at http" not in line:
            raise SystemExit("the runtime did not start; its error is above")
        yield BenchRuntime(line.rpartition(" at ")[2].strip(), child.pid)
