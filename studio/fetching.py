"""Child processes that download checkpoints and list published checkpoints.

The child process runs the command ``voicewright fetch``. Only this process uses `huggingface_hub`. Therefore, network
and disk access never block the studio, and a download can be stopped immediately. Thread: event loop.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from studio.runtimes.child_process import ChildProcess, Refused, read_output, spawn

FETCH_COMMAND = ("runtime.cli", "fetch")  # Module and subcommand of the child process.
PLAN_TIMEOUT_S = 300.0  # Timeout of a plan in seconds. On a busy machine, importing torch alone may take a minute.
RETRY_DELAY_S = 30.0
MAX_PLAN_AGE_S = 600.0  # Maximum age of a plan in seconds.


@asynccontextmanager
async def fetching(command: Sequence[str], models: Sequence[str]) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """Start a child process that downloads checkpoints, and yield an iterator over its events.

    The last event is the exit of the child process. The process is killed when the context exits.

    Raises:
        OSError, ValueError: The child process cannot be started.
    """
    process = await spawn([*command, "--json", *models], asyncio.subprocess.PIPE)
    child = ChildProcess(process)
    assert process.stdout is not None
    try:
        yield _events(child, process.stdout)
    finally:
        child.kill()  # The child may be killed at any time, because completed files remain.
        await process.wait()


async def _events(child: ChildProcess, lines: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    async for line in lines:
        with suppress(ValueError):
            if isinstance(event := json.loads(line), dict):
                yield event
    yield {"event": "ended", "status": await child.ended(), "message": child.last_line}


class Plan:
    """Cache for the list of published checkpoints, with memory and speed estimates.

    A child process computes the list and the estimates for this machine.
    """

    def __init__(self, command: Sequence[str] = FETCH_COMMAND) -> None:
        self._command = tuple(command)
        self._task: asyncio.Task[None] | None = None
        self._started_at = -math.inf
        self.latest: dict[str, Any] | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def update(self, device: Sequence[str]) -> None:
        """Compute the list of published checkpoints again in the background, if it is outdated.

        `device` has the command-line arguments for the device and the dtype.
        """
        min_interval_s = RETRY_DELAY_S if self.latest is None else MAX_PLAN_AGE_S
        if not self.is_running and time.monotonic() - self._started_at > min_interval_s:
            self._task = asyncio.create_task(self._compute(device))

    def invalidate(self) -> None:
        """Mark the list of published checkpoints as outdated, because local files have changed."""
        self._started_at = -math.inf

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _compute(self, device: Sequence[str]) -> None:
        try:
            async with asyncio.timeout(PLAN_TIMEOUT_S):
                self.latest = json.loads(await read_output([*self._command, "--plan", *device]))
        except (TimeoutError, ValueError, Refused):
            pass  # If there is no plan, the built-in table is used.
        finally:
            self._started_at = time.monotonic()
