"""Starts ``voicewright fetch`` as a child process: what it says of a download, and of what is published.

Thread: the event loop. The Hub's library is in the child alone, so that nothing here waits for a network or a disk, and
a download ends at once when it is to end.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from studio.runtimes.child_process import ChildProcess, spawn

FETCH = ("runtime.cli", "fetch")  # module and its arguments
PLAN_S = 300.0  # for a child to measure this machine and ask the Hub; to import torch takes a busy one a minute
REST_S = 30.0  # after a child that failed, before another is started
FRESH_S = 600.0  # for what it has said to be asked again


@asynccontextmanager
async def fetching(command: Sequence[str], models: Sequence[str]) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """Fetch checkpoints, and give what the child says as it comes; its end is an event too. Leaving ends the child.

    Raises:
        OSError, ValueError: the system does not take the command.
    """
    process = await spawn([*command, "--json", *models], asyncio.subprocess.PIPE)
    child = ChildProcess(process)
    assert process.stdout is not None
    try:
        yield _events(child, process.stdout)
    finally:
        child.kill()  # what it has written is there, and nothing else of it is worth waiting for
        await process.wait()


async def _events(child: ChildProcess, lines: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    async for line in lines:
        with suppress(ValueError):
            if isinstance(event := json.loads(line), dict):
                yield event
    yield {"event": "ended", "status": await child.ended(), "words": child.last_words}


class Plan:
    """What is published, and how it would do on this machine; asked of a child, and again after a while."""

    def __init__(self, command: Sequence[str] = FETCH) -> None:
        self._command = tuple(command)
        self._asking: asyncio.Task[None] | None = None
        self._asked_at = -math.inf
        self.told: dict[str, Any] | None = None

    @property
    def is_asking(self) -> bool:
        return self._asking is not None and not self._asking.done()

    def ask(self, device: Sequence[str]) -> None:
        """Have it asked, unless it was lately. ``device`` are the arguments that name device and dtype."""
        rest = REST_S if self.told is None else FRESH_S
        if not self.is_asking and time.monotonic() - self._asked_at > rest:
            self._asking = asyncio.create_task(self._ask(device))

    def forget(self) -> None:
        """Forget the plan, because the local files have changed."""
        self._asked_at = -math.inf

    async def aclose(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})

    async def _ask(self, device: Sequence[str]) -> None:
        process = await spawn([*self._command, "--plan", *device], asyncio.subprocess.PIPE)
        child = ChildProcess(process)
        try:
            assert process.stdout is not None
            async with asyncio.timeout(PLAN_S):
                said = await process.stdout.read()
                if await child.ended() == 0:
                    self.told = json.loads(said)
        except (TimeoutError, ValueError):
            pass  # the table has to do
        finally:
            self._asked_at = time.monotonic()
            child.kill()
            await process.wait()
