"""Download of checkpoints in the background, after which the runtime loads them.

Only one download runs at a time. Its state is stored on disk. After a restart of the studio, an interrupted download is
paused and can be resumed, and the runtime loads the downloaded checkpoints again. Thread: event loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from runtime.errors import OutOfOrder
from runtime.request import Mode
from runtime.shared.files import make_private, replace_file
from studio.checkpoint_arguments import bits_of, models_of, named_in, reference_of, with_bits, with_models
from studio.fetching import Download, DownloadPart, DownloadRecord, DownloadState
from studio.runtimes.supervisor import ChildRuntime, RuntimeState

log = logging.getLogger(__name__)

FILE = "real-voices.json"
POLL_INTERVAL_S = 0.1
RATE_WINDOW_S = 8.0

# Async function that returns the model cards of the served checkpoints.
Cards = Callable[[], Awaitable[list[dict[str, Any]]]]


@dataclass(slots=True)
class CheckpointRecord(DownloadRecord):
    """State of a checkpoint download, which is stored on disk."""

    serving: list[str] = field(default_factory=list)  # Arguments of the downloaded checkpoints that are being served.
    before: list[str] = field(default_factory=list)  # Arguments of the checkpoints that were served earlier.
    bits: str = ""  # Weight format that the host has chosen, or "" for the studio's setting.
    bits_before: str = ""


class CheckpointDownload(Download):
    """State machine of the current checkpoint download.

    `served` is a function that returns the model cards of the checkpoints that the runtime has loaded.
    """

    record: CheckpointRecord

    def __init__(self, runtime: ChildRuntime, folder: Path, served: Cards) -> None:
        self._runtime = runtime
        self._folder = folder
        self._served = served
        self._rates: deque[tuple[float, int]] = deque()
        super().__init__(_read(folder / FILE))
        if self.record.state in (DownloadState.FETCHING, DownloadState.CHANGING):
            self.record.state = DownloadState.PAUSED

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the background work of checkpoint downloads while the context is open.

        On entry, checkpoints that were downloaded earlier are loaded again. On exit, running work is cancelled.
        """
        if self.record.serving and not named_in(self._runtime.args) and not os.environ.get("VOICEWRIGHT_MODEL"):
            self._work = asyncio.create_task(self._bring_back())
        try:
            yield
        finally:
            await self._halt()

    # --- Methods that start, stop and change a download for the host.

    def start(self, models: Sequence[str], bits: str = "") -> None:
        """Start the download of checkpoints.

        The runtime loads them when all files are complete.

        Args:
            models: Hub ids of the checkpoints.
            bits: Weight format (``--quantize``), or "" for the studio's setting.

        Raises:
            OutOfOrder: A download is already running.
        """
        self._require(
            self.record.state not in (DownloadState.FETCHING, DownloadState.PAUSED, DownloadState.CHANGING),
            "another download is running",
        )
        self.record.parts = [DownloadPart(model) for model in models]
        self.record.bits = bits or bits_of(self._runtime.args)
        self._begin()

    async def pause(self) -> None:
        """Pause the download of checkpoints, and keep the files that were downloaded.

        Raises:
            OutOfOrder: No download is running.
        """
        self._require(self.record.state is DownloadState.FETCHING, "nothing is being fetched")
        await self._halt()
        self._become(DownloadState.PAUSED)

    async def resume(self) -> None:
        """Resume a paused or failed download of checkpoints.

        Raises:
            OutOfOrder: No download is paused or failed.
        """
        self._require(self.record.state in (DownloadState.PAUSED, DownloadState.FAILED), "nothing is paused")
        self._begin()

    async def stop(self) -> None:
        """Cancel a checkpoint download, or the loading of the downloaded checkpoints.

        The downloaded files are not deleted.

        Raises:
            OutOfOrder: There is no download to cancel.
        """
        under_way = (DownloadState.FETCHING, DownloadState.PAUSED, DownloadState.FAILED, DownloadState.CHANGING)
        self._require(self.record.state in under_way, "nothing is being fetched")
        if self.record.state is DownloadState.CHANGING:
            self._runtime.cancel_change()
        await self._halt()
        self.problem = None
        self._become(DownloadState.DONE if self.record.serving else DownloadState.NONE)

    async def restore_previous(self) -> None:
        """Load the checkpoints that the runtime had loaded before the download.

        Raises:
            OutOfOrder: There are no previous checkpoints, or other checkpoints are being loaded.
        """
        self._require(bool(self.record.before) and self.record.state is DownloadState.DONE, "nothing served before")
        self._require(not self._runtime.changing, "other checkpoints are being loaded")
        await self._halt()  # A task may still be restoring downloaded checkpoints.
        self._runtime.change(with_bits(with_models(self._runtime.args, self.record.before), self.record.bits_before))
        self.forget()

    def forget(self) -> None:
        """Delete the record of the downloaded checkpoints, after the host has selected others."""
        self.record.serving = []
        self.record.before = []
        if self.record.state is DownloadState.DONE:
            self._become(DownloadState.NONE)
        else:
            self._save()

    def status(self) -> dict[str, Any]:
        """Return the state and the progress of the checkpoint download as a JSON object."""
        parts = self.record.parts if self.record.state is not DownloadState.NONE else []
        return {
            "state": self.record.state,
            "parts": [asdict(part) for part in parts],
            "got": sum(part.got for part in parts),
            "of": sum(part.of for part in parts),
            "rate": self._rate() if self.record.state is DownloadState.FETCHING else None,
            "change": self._runtime.status.change if self.record.state is DownloadState.CHANGING else None,
            "problem": self.problem,
            "can_go_back": self.record.state is DownloadState.DONE and bool(self.record.before),
        }

    # --- Methods that run the download in the background.

    def _begin(self) -> None:
        self._rates.clear()
        super()._begin()

    def _on_event(self, event: dict[str, Any]) -> None:
        super()._on_event(event)
        if event["event"] == "progress":
            self._rates.append((time.monotonic(), sum(part.got for part in self.record.parts)))
            while self._rates[-1][0] - self._rates[0][0] > RATE_WINDOW_S:
                self._rates.popleft()

    def _rate(self) -> float | None:
        """Return the recent download speed in bytes per second, or None."""
        if len(self._rates) < 2:
            return None
        (began, first), (now, last) = self._rates[0], self._rates[-1]
        return max(0.0, last - first) / max(time.monotonic() - began, 0.1) if now > began else None

    async def _use_files(self) -> None:
        """Load the downloaded checkpoints, or keep the current ones if that fails."""
        self._become(DownloadState.CHANGING)
        await self._settled()  # Wait until other checkpoints that the host has requested are loaded.
        before, bits_before = models_of(self._runtime.args), bits_of(self._runtime.args)
        models = await self._with_the_rest(before)
        if await self._load(models):
            # Keep the checkpoints that were served before the first download, because `restore_previous` loads them
            # even after a second download.
            if not self.record.before:
                self.record.before, self.record.bits_before = before, bits_before
            self.record.serving = models
            self._become(DownloadState.DONE)

    async def _load(self, models: Sequence[str]) -> bool:
        self._runtime.change(with_bits(with_models(self._runtime.args, models), self.record.bits))
        await self._settled()
        if problem := self._runtime.status.problem:
            self._fail("not_changed", problem)
        return not problem

    async def _settled(self) -> None:
        while self._runtime.changing:  # noqa: ASYNC110 - a process changes it
            await asyncio.sleep(POLL_INTERVAL_S)

    async def _with_the_rest(self, before: Sequence[str]) -> list[str]:
        """Return the downloaded checkpoints, and the current ones for the other modes."""
        taken = {mode for part in self.record.parts for mode in part.modes}
        cards = await self._served()
        rest = []
        for mode in (str(mode) for mode in Mode if str(mode) not in taken):
            name = next((card["id"] for card in cards if mode in card["modes"]), None)
            reference = next((model for model in map(reference_of, before) if _public(model) == name), None)
            if reference is not None:
                rest.append(f"{mode}={reference}")
        return [part.id for part in self.record.parts] + rest

    async def _bring_back(self) -> None:
        """Load the downloaded checkpoints after a restart, once the initial ones are ready."""
        while self._runtime.status.state is not RuntimeState.READY:  # noqa: ASYNC110 - a process changes it
            await asyncio.sleep(POLL_INTERVAL_S)
        state = self.record.state
        if await self._load(self.record.serving):
            self._become(state)

    def _require(self, holds: bool, why: str) -> None:
        if not holds:
            raise OutOfOrder(what="Downloading", why=why)

    def _become(self, state: DownloadState) -> None:
        super()._become(state)
        self._save()

    def _save(self) -> None:
        try:
            make_private(self._folder)
            replace_file(self._folder, FILE, json.dumps(asdict(self.record)).encode())
        except OSError:
            log.warning("the state of the download could not be saved")


def _read(path: Path) -> CheckpointRecord:
    try:
        stored = json.loads(path.read_bytes())
        parts = [DownloadPart(**part) for part in stored.pop("parts")]
        return CheckpointRecord(**{**stored, "state": DownloadState(stored["state"]), "parts": parts})
    except (OSError, ValueError, TypeError, KeyError):
        return CheckpointRecord()


def _public(reference: str) -> str:
    """Return the runtime's public name of a checkpoint: a Hub id, or a folder's name."""
    return Path(reference).resolve().name if os.path.isdir(reference) else reference
