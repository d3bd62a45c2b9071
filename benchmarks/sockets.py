"""A real runtime process on loopback."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass


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
    command = [sys.executable, "-m", "runtime.cli", "runtime", "--port", "0", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, env={**os.environ, "VOICEWRIGHT_HOST": "127.0.0.1", **(environment or {})}
    )
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        if " at http" not in line:
            raise SystemExit("the runtime did not start; its error is above")
        yield BenchRuntime(line.rpartition(" at ")[2].strip(), process.pid)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
