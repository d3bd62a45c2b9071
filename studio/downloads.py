"""Fetches real voices while the present one serves, and lets them take over; one download at a time.

Where it is outlives a reload of the page, and an end of the studio: what was being fetched then is paused, and goes on
where it stopped; what had taken over takes over again. Thread: the event loop.
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
from enum import StrEnum
from pathlib import Path
from typing import Any

from runtime.errors import OutOfOrder
from runtime.request import Mode
from runtime.shared.files import make_private, replace_file
from studio.checkpoint_arguments import bits_of, models_of, named_in, with_bits, with_models
from studio.fetching import FETCH, fetching
from studio.runtimes.supervisor import ChildRuntime, RuntimeState

log = logging.getLogger(__name__)

FILE = "real-voices.json"
POLL_S = 0.1  # while a runtime changes
RATE_S = 8.0  # over which the speed of a download is told

Cards = Callable[[], Awaitable[list[dict[str, Any]]]]  # of what the runtime serves


class DownloadState(StrEnum):
    """State of a download."""

    NONE = "none"
    FETCHING = "fetching"
    PAUSED = "paused"
    CHANGING = "changing"  # all is here, and is being loaded
    FAILED = "failed"
    DONE = "done"  # it serves


@dataclass(slots=True)
class DownloadPart:
    """One checkpoint of a download. Bytes."""

    id: str
    got: int = 0
    of: int = 0
    step: str = "waits"  # then fetching, checking, here
    modes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Kept:
    """State of downloads that survives a restart."""

    state: DownloadState = DownloadState.NONE
    parts: list[DownloadPart] = field(default_factory=list)
    serving: list[str] = field(default_factory=list)  # what has taken over, as arguments
    before: list[str] = field(default_factory=list)  # what served before that
    bits: str = ""  # of weights, as the host chose them for these; empty: as the studio was told
    bits_before: str = ""


class Downloads:
    """The one download. ``served`` asks the runtime for its cards."""

    def __init__(self, runtime: ChildRuntime, folder: Path, served: Cards, command: Sequence[str] = FETCH) -> None:
        self._runtime = runtime
        self._folder = folder
        self._served = served
        self._command = tuple(command)
        self._work: asyncio.Task[None] | None = None
        self._rates: deque[tuple[float, int]] = deque()
        self.problem: dict[str, Any] | None = None
        self.kept = _read(folder / FILE)
        if self.kept.state in (DownloadState.FETCHING, DownloadState.CHANGING):
            self.kept.state = DownloadState.PAUSED

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Bring back what had taken over, and end what runs at the end."""
        if self.kept.serving and not named_in(self._runtime.args) and not os.environ.get("VOICEWRIGHT_MODEL"):
            self._work = asyncio.create_task(self._bring_back())
        try:
            yield
        finally:
            await self._halt()

    # --- what the host wants

    def start(self, models: Sequence[str], bits: str = "") -> None:
        """Fetch these and let them take over, with weights of so many bits; empty: as the studio was told.

        Raises:
            OutOfOrder: a download is under way.
        """
        self._require(
            self.kept.state not in (DownloadState.FETCHING, DownloadState.PAUSED, DownloadState.CHANGING),
            "another runs already",
        )
        self.kept.parts = [DownloadPart(model) for model in models]
        self.kept.bits = bits or bits_of(self._runtime.args)
        self._begin()

    async def pause(self) -> None:
        """Stop fetching for now; what is here stays.

        Raises:
            OutOfOrder: nothing is being fetched.
        """
        self._require(self.kept.state is DownloadState.FETCHING, "nothing is being fetched")
        await self._halt()
        self._become(DownloadState.PAUSED)

    def resume(self) -> None:
        """Go on where it stopped.

        Raises:
            OutOfOrder: nothing waits for that.
        """
        self._require(self.kept.state in (DownloadState.PAUSED, DownloadState.FAILED), "nothing is paused")
        self._begin()

    async def stop(self) -> None:
        """Give it up. What has come is kept for another time; what is being loaded is given up as well.

        Raises:
            OutOfOrder: there is none.
        """
        under_way = (DownloadState.FETCHING, DownloadState.PAUSED, DownloadState.FAILED, DownloadState.CHANGING)
        self._require(self.kept.state in under_way, "nothing is being fetched")
        if self.kept.state is DownloadState.CHANGING:
            self._runtime.give_up()
        await self._halt()
        self.problem = None
        self._become(DownloadState.DONE if self.kept.serving else DownloadState.NONE)

    async def back(self) -> None:
        """Let what served before the real voices serve again.

        Raises:
            OutOfOrder: nothing served before, or other checkpoints are being loaded.
        """
        self._require(bool(self.kept.before) and self.kept.state is DownloadState.DONE, "nothing served before")
        self._require(not self._runtime.changing, "other checkpoints are being loaded")
        await self._halt()  # it may be bringing them back
        self._runtime.change(with_bits(with_models(self._runtime.args, self.kept.before), self.kept.bits_before))
        self.forget()

    def forget(self) -> None:
        """The host has loaded others by hand: these do not come back by themselves."""
        self.kept.serving = []
        self.kept.before = []
        if self.kept.state is DownloadState.DONE:
            self._become(DownloadState.NONE)
        else:
            self._save()

    def told(self) -> dict[str, Any]:
        """Return the download's state for the page."""
        parts = self.kept.parts if self.kept.state is not DownloadState.NONE else []
        return {
            "state": self.kept.state,
            "parts": [asdict(part) for part in parts],
            "got": sum(part.got for part in parts),
            "of": sum(part.of for part in parts),
            "rate": self._rate() if self.kept.state is DownloadState.FETCHING else None,
            "change": self._runtime.status.change if self.kept.state is DownloadState.CHANGING else None,
            "problem": self.problem,
            "can_go_back": self.kept.state is DownloadState.DONE and bool(self.kept.before),
        }

    # --- the work

    def _begin(self) -> None:
        self.problem = None
        self._rates.clear()
        self._become(DownloadState.FETCHING)
        self._work = asyncio.create_task(self._fetch_and_change())

    async def _halt(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait({self._work})
            self._work = None

    async def _fetch_and_change(self) -> None:
        try:
            if await self._fetch():
                await self._change()
        except (OSError, ValueError):
            log.exception("a download could not be started")
            self._fail({"code": "fetch_failed", "message": "The download could not be started; the log says why."})

    async def _fetch(self) -> bool:
        """Whether all is here."""
        async with fetching(self._command, [part.id for part in self.kept.parts]) as events:
            async for event in events:
                match event["event"]:
                    case "failed":
                        self._fail({name: event[name] for name in ("code", "message", "facts")})
                        return False
                    case "ended":
                        if event["status"]:
                            words = event["words"] or f"The download ended with status {event['status']}."
                            self._fail({"code": "fetch_failed", "message": words})
                        return not event["status"]
                    case _:
                        self._hear(event)
        return False

    def _hear(self, event: dict[str, Any]) -> None:
        part = next(part for part in self.kept.parts if part.id == event["id"])
        part.got, part.of = event.get("got", part.got), event.get("of", part.of)
        part.modes = event.get("modes", part.modes)
        part.step = {"done": "here", "progress": event.get("step", "")}.get(event["event"], part.step)
        if event["event"] == "progress":
            self._rates.append((time.monotonic(), sum(part.got for part in self.kept.parts)))
            while self._rates[-1][0] - self._rates[0][0] > RATE_S:
                self._rates.popleft()

    def _rate(self) -> float | None:
        """Bytes a second, lately."""
        if len(self._rates) < 2:
            return None
        (began, first), (now, last) = self._rates[0], self._rates[-1]
        return max(0.0, last - first) / max(time.monotonic() - began, 0.1) if now > began else None

    async def _change(self) -> None:
        """Let what is here take over; where it cannot, all stays as it is."""
        self._become(DownloadState.CHANGING)
        await self._settled()  # the host may have others loaded just now
        before, bits_before = models_of(self._runtime.args), bits_of(self._runtime.args)
        models = await self._with_the_rest(before)
        if await self._load(models):
            # A second download keeps what was there at first as the way back.
            if not self.kept.before:
                self.kept.before, self.kept.bits_before = before, bits_before
            self.kept.serving = models
            self._become(DownloadState.DONE)

    async def _load(self, models: Sequence[str]) -> bool:
        self._runtime.change(with_bits(with_models(self._runtime.args, models), self.kept.bits))
        await self._settled()
        if problem := self._runtime.status.problem:
            self._fail({"code": "not_changed", "message": problem})
        return not problem

    async def _settled(self) -> None:
        while self._runtime.changing:  # noqa: ASYNC110 - a process changes it
            await asyncio.sleep(POLL_S)

    async def _with_the_rest(self, before: Sequence[str]) -> list[str]:
        """What was fetched, and of what serves now whatever serves a mode that none of it does."""
        taken = {mode for part in self.kept.parts for mode in part.modes}
        cards = await self._served()
        rest = []
        for mode in (str(mode) for mode in Mode if str(mode) not in taken):
            name = next((card["id"] for card in cards if mode in card["modes"]), None)
            reference = next((model for model in map(_plain, before) if _public(model) == name), None)
            if reference is not None:
                rest.append(f"{mode}={reference}")
        return [part.id for part in self.kept.parts] + rest

    async def _bring_back(self) -> None:
        """Start with what the settings name, which is quick, and change to the real voices beside it."""
        while self._runtime.status.state is not RuntimeState.READY:  # noqa: ASYNC110 - a process changes it
            await asyncio.sleep(POLL_S)
        state = self.kept.state
        if await self._load(self.kept.serving):
            self._become(state)

    def _require(self, holds: bool, why: str) -> None:
        if not holds:
            raise OutOfOrder(what="Downloading", why=why)

    def _fail(self, problem: dict[str, Any]) -> None:
        self.problem = {"facts": {}, **problem}
        self._become(DownloadState.FAILED)

    def _become(self, state: DownloadState) -> None:
        self.kept.state = state
        self._save()

    def _save(self) -> None:
        try:
            make_private(self._folder)
            replace_file(self._folder, FILE, json.dumps(asdict(self.kept)).encode())
        except OSError:
            log.warning("where the download is could not be written down")


def _read(path: Path) -> Kept:
    try:
        told = json.loads(path.read_bytes())
        parts = [DownloadPart(**part) for part in told.pop("parts")]
        return Kept(**{**told, "state": DownloadState(told["state"]), "parts": parts})
    except (OSError, ValueError, TypeError, KeyError):
        return Kept()


def _plain(reference: str) -> str:
    word, separator, rest = reference.partition("=")
    return rest if separator and word in set(Mode) else reference


def _public(reference: str) -> str:
    """The name under which the runtime lists it: a Hub id as it is, a folder by its last part."""
    return Path(reference).resolve().name if os.path.isdir(reference) else reference
