"""Service that opens the store and creates the HTTP routes of stored data."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from starlette.routing import Route

from runtime.errors import SpeechError
from runtime.settings import Settings
from runtime.shared.files import locked, replace_file
from studio.aligning.service import AlignmentService
from studio.relay.relay import Relay
from studio.routes.exports import ExportRoutes
from studio.routes.me import Features, MeRoutes
from studio.routes.pronunciation import PronunciationRoutes
from studio.routes.responses import WorkerPool
from studio.routes.scripts import ScriptRoutes
from studio.routes.sharing import SharingRoutes
from studio.routes.takes import TakeRoutes
from studio.routes.voices import VoiceRoutes
from studio.routes.word_times import WordTimeRoutes
from studio.settings import StoreSettings
from studio.store.store import Store
from studio.visitors.visitors import MemberOf, Visitor, Visitors

JUMP_S = 60.0  # Minimum deviation in seconds of the wall clock from the monotonic clock that counts as a jump.

KEY_FILE = "cookie.key"
KEY_BYTES = 32

log = logging.getLogger(__name__)

TIDY_S = 3600.0
RUNTIME_COLLECTIONS = ("/v1/audio/voices", "/v1/audio/pronunciations")
MAX_CONCURRENT_EXPORTS = 2


class StoreService:
    """Store of the studio (database and files), with its HTTP routes and background cleanup.

    The constructor opens the store, which may block for a moment.

    Raises:
        InvalidSetting: A newer version of Voicewright has written the store's folder.
    """

    def __init__(
        self, settings: StoreSettings, *, member_of: MemberOf | None = None, features: Features | None = None
    ) -> None:
        self.store = Store(settings)
        self.store.open()
        key = cookie_key(self.store.folder) if settings.has_separate_histories() else b""
        self.visitors = Visitors(has_separate_histories=settings.has_separate_histories(), key=key, member_of=member_of)
        self._workers = WorkerPool()
        self._export_workers = WorkerPool(MAX_CONCURRENT_EXPORTS)
        self._aligning = AlignmentService()
        self._features = features

    def routes(self) -> list[Route]:
        store, visitors, workers = self.store, self.visitors, self._workers
        return [
            *TakeRoutes(store, visitors, workers, Settings.from_env().limits.max_config_bytes).routes(),
            *WordTimeRoutes(store, visitors, workers, self._aligning).routes(),
            *ExportRoutes(store, visitors, workers, self._export_workers).routes(),
            *SharingRoutes(store, visitors, workers, self._export_workers).routes(),
            *ScriptRoutes(store, visitors, workers).routes(),
            *PronunciationRoutes(store, visitors, workers).routes(),
            *MeRoutes(store, visitors, workers, self._features).routes(),
        ]

    def voice_routes(self, relay: Relay) -> list[Route]:
        """Return the HTTP routes that use voices stored in the runtime.

        `relay` is the proxy to the runtime.
        """
        return VoiceRoutes(self.store, self.visitors, self._workers, relay).routes()

    @asynccontextmanager
    async def running(self, relay: Relay | None = None) -> AsyncIterator[None]:
        """Delete expired items periodically, and close the store on exit.

        If `relay` (the proxy to the runtime) is given, expired data in the runtime is deleted as well.
        """
        tidying = asyncio.create_task(self._tidy(relay))
        try:
            yield
        finally:
            tidying.cancel()
            self._aligning.close()
            await asyncio.to_thread(self._close)

    async def admit_to_runtime(self, visitor: Visitor, max_owners: int) -> None:
        """Record that a visitor is going to store data in the runtime.

        Raises:
            StoreFull: The address already has `max_owners` such visitors (0 is unlimited).
        """
        if visitor.kind == "visitor" and visitor.owner is not None:
            await self._workers(self.store.runtime_owners.admit, visitor.owner, visitor.address, max_owners)

    async def purge_runtime(self, relay: Relay) -> None:
        """Delete the voices and dictionaries of expired visitors from the runtime.

        A visitor expires after a long time without a visit.
        """
        for owner in await self._workers(self.store.left_owners):
            for path in RUNTIME_COLLECTIONS:
                answer = await relay.send_as(owner, "GET", path)
                for item in answer.raise_for_status().json()["data"]:
                    if item["yours"]:
                        (await relay.send_as(owner, "DELETE", f"{path}/{item['id']}")).raise_for_status()
            await self._workers(self.store.runtime_owners.forget, owner)

    async def _tidy(self, relay: Relay | None) -> None:
        clock = WallClock()
        while True:
            await asyncio.sleep(TIDY_S)
            if jump := clock.jumped_s():
                log.warning("the machine's clock jumped by %.0f s, so this cleanup deletes nothing", jump)
                continue
            try:
                await self._workers(self.store.tidy)
                if relay is not None:
                    await self.purge_runtime(relay)
            except (SpeechError, httpx.HTTPError) as error:
                log.warning("the bin could not be emptied: %s", error)

    def _close(self) -> None:
        self._workers.close()
        self._export_workers.close()
        self.store.close()


def cookie_key(folder: Path) -> bytes:
    """Return the secret key that signs cookies.

    The first call creates the key's file in `folder`. Studios that use the same folder share the key.

    Raises:
        OSError: The key cannot be read or written.
    """
    with locked(folder):
        path = folder / KEY_FILE
        key = path.read_bytes() if path.exists() else b""
        if len(key) != KEY_BYTES:
            key = secrets.token_bytes(KEY_BYTES)
            replace_file(folder, KEY_FILE, key)
    return key


def _date() -> float:
    return time.time()


class WallClock:
    """Detector of jumps of the wall clock, so that a wrong clock does not expire stored data.

    After a jump, the clock is trusted again when two consecutive checks find no jump between them.
    """

    def __init__(self, wall: Callable[[], float] = _date, passed: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._passed = passed
        self._apart = wall() - passed()  # Difference between wall-clock time and elapsed time in seconds.

    def jumped_s(self) -> float:
        """Return the seconds by which the clock has jumped since the last check.

        The result is 0.0 if the clock has not jumped.
        """
        before, self._apart = self._apart, self._wall() - self._passed()
        jump = self._apart - before
        return jump if abs(jump) > JUMP_S else 0.0
