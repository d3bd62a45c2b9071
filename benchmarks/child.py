"""Starts a Python module in a process of its own: one that answers line by line, or one that ends with a row."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any


class Child:
    """A process whose standard output is read line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def line(self) -> str:
        """What it prints next; empty where it has ended."""
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode()

    async def ask(self, line: str) -> str:
        """Its answer to a line on its standard input; empty where it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()
        return await self.line()


@asynccontextmanager
async def started(
    module: str,
    *arguments: str,
    is_asked: bool = False,
    environment: Mapping[str, str] | None = None,
    line_bytes: int = 2**16,
) -> AsyncIterator[Child]:
    """Start a module; it is ended when nobody needs it any more.

    Args:
        is_asked: it reads lines from its standard input.
        environment: all of its variables; None: those of this process.
        line_bytes: of a line that it prints, at most.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        stdin=subprocess.PIPE if is_asked else None,
        stdout=subprocess.PIPE,
        env=environment,
        limit=line_bytes,
    )
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def row_of(module: str, *arguments: str, limit_s: float) -> dict[str, Any]:
    """Run a module to its end, and return the JSON object in the last line that it printed.

    Raises:
        subprocess.CalledProcessError: it failed; its error is on stderr.
        subprocess.TimeoutExpired: it took longer.
    """
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=limit_s, check=True)
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row
