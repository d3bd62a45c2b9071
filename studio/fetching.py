"""Downloads from the Hugging Face Hub, and the list of published checkpoints.

Both use a child process, which runs the command ``voicewright fetch``. Only this process uses `huggingface_hub`.
So network and disk access never block the studio, and a download can be stopped immediately. Thread: event loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from studio.runtimes.child_process import ChildProcess, Refused, read_output, spawn

log = logging.getLogger(__name__)

FETCH_COMMAND = ("runtime.cli", "fetch")  # Module and subcommand of the child process.
PLAN_TIMEOUT_S = 300.0  # Timeout of a plan in seconds. On a busy machine, importing torch alone may take a minute.
RETRY_DELAY_S = 30.0
MAX_PLAN_AGE_S = 600.0  # Maximum age of a plan in seconds.


class DownloadState(StrEnum):
    """State of a download, for example paused or failed."""

    NONE = "none"
    FETCHING = "fetching"
    PAUSED = "paused"
    CHANGING = "changing"  # All files are downloaded, and the runtime loads them.
    FAILED = "failed"
    DONE = "done"


@dataclass(slots=True)
class DownloadPart:
    """Progress of the download of one repository.

    `got` is the number of downloaded bytes, and `of` is the total number of bytes.
    """

    id: str
    got: int = 0
    of: int = 0
    step: str = "waits"  # Current step: waits, fetching, checking, or here (all files are on disk).
    modes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class DownloadRecord:
    """State of a download, and the progress of each repository."""

    state: DownloadState = DownloadState.NONE
    parts: list[DownloadPart] = field(default_factory=list)


class Download:
    """State machine of a download in the background.

    Subclasses define when a download may start, and how its files are used.
    """

    def __init__(self, record: DownloadRecord, command: Sequence[str] = FETCH_COMMAND) -> None:
        self.record = record
        self.changed_at = -math.inf  # Time of the last change of the state, on the clock `time.monotonic`.
        self.problem: dict[str, Any] | None = None  # Code, message and facts of the error of a failed download.
        self._command = command
        self._work: asyncio.Task[None] | None = None

    def _begin(self) -> None:
        self.problem = None
        self._become(DownloadState.FETCHING)
        self._work = asyncio.create_task(self._fetch_and_use())

    async def _halt(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait({self._work})
            self._work = None

    async def _fetch_and_use(self) -> None:
        try:
            if await self._fetch():
                await self._use_files()
        except (OSError, ValueError):
            log.exception("a download could not be started")
            self._fail("fetch_failed", "The download could not be started; the log says why.")

    async def _fetch(self) -> bool:
        """Download all files in a child process, and return True if all of them are complete."""
        names = [part.id for part in self.record.parts]
        process = await spawn([*self._command, "--json", *names], asyncio.subprocess.PIPE)
        child = ChildProcess(process)
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # A library may print other lines.
                if not isinstance(event, dict) or "event" not in event:
                    continue
                if event["event"] == "failed":
                    self._fail(event["code"], event["message"], event["facts"])
                    return False
                self._on_event(event)
            if status := await child.ended():
                self._fail("fetch_failed", child.last_line or f"The download ended with status {status}.")
            return not status
        finally:
            child.kill()  # The child may be killed at any time, because completed files remain.
            await process.wait()

    def _on_event(self, event: dict[str, Any]) -> None:
        for part in self.record.parts:
            if part.id == event["id"]:
                part.got, part.of = event.get("got", part.got), event.get("of", part.of)
                part.step, part.modes = event.get("step", part.step), event.get("modes", part.modes)

    async def _use_files(self) -> None:
        """Use the downloaded files after all of them are complete."""
        self._become(DownloadState.DONE)

    def _fail(self, code: str, message: str, facts: dict[str, Any] | None = None) -> None:
        self.problem = {"code": code, "message": message, "facts": facts or {}}
        self._become(DownloadState.FAILED)

    def _become(self, state: DownloadState) -> None:
        self.record.state = state
        self.changed_at = time.monotonic()


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

    def update(self, device: Sequence[str], changed_at: float = -math.inf) -> None:
        """Compute the list of published checkpoints again in the background, if it is outdated.

        Args:
            device: Command-line arguments for the device and the dtype.
            changed_at: Time of the last change of local files, on the clock `time.monotonic`.
        """
        now, min_interval_s = time.monotonic(), RETRY_DELAY_S if self.latest is None else MAX_PLAN_AGE_S
        is_outdated = now - self._started_at > min_interval_s or changed_at > self._started_at
        if is_outdated and not self.is_running:
            self._started_at = now
            self._task = asyncio.create_task(self._compute(device))

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
