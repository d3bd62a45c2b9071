"""Routes `studio/me`, which return the current visitor, the features and the preferences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from studio.routes.responses import RouteTable, StoreRoutes, WorkerPool, json_response, read_body
from studio.store.audio_files import FORMATS
from studio.store.exports import MAX_CLIPS
from studio.store.records import decode, preferences_of
from studio.store.store import Store
from studio.visitors.visitors import Visitors

# Function that returns the optional features for a request, such as speech recognition and sign-in.
Features = Callable[[Request], dict[str, Any]]

PLAIN: dict[str, Any] = {
    "transcribe": {"available": False, "how": "", "model": None},
    "oauth": None,
}


class MeRoutes(StoreRoutes):
    """HTTP routes that return the current visitor's data and change the preferences.

    Thread: event loop.
    """

    def __init__(self, store: Store, visitors: Visitors, workers: WorkerPool, features: Features | None = None) -> None:
        super().__init__(store, visitors, workers)
        self._features = features

    def table(self) -> RouteTable:
        return [("GET", "/studio/me", self.me), ("PATCH", "/studio/me", self.prefer)]

    async def me(self, request: Request) -> Response:
        visitor = self._visitors.identify(request)
        chosen = {} if visitor.owner is None else await self._workers(self._visit, visitor.owner)
        features = (
            PLAIN
            | {"formats": list(FORMATS), "share": self._store.settings.share_links == "on"}
            | {"export": {"max_s": self._store.settings.export_limit_s, "max_clips": MAX_CLIPS}}
            | (self._features(request) if self._features else {})
        )
        note = self._store.temporary_note
        return json_response(
            {
                "visitor": {"kind": visitor.kind, "name": visitor.name},
                "persistent": note is None,
                "temporary_note": note,
                "notice": self._store.notice,
                "features": features,
                "preferences": {"language": None, "theme": None} | chosen,
            }
        )

    def _visit(self, owner: str) -> dict[str, Any]:
        self._store.runtime_owners.note_visit(owner)
        return self._store.preferences(owner)

    async def prefer(self, request: Request) -> Response:
        """Change preferences of the visitor and return the visitor's data.

        A preference is deleted if its value is null.
        """
        owner, address = self._visitors.identify(request).owner_and_address
        changes = preferences_of(decode(await read_body(request)))
        await self._workers(self._store.prefer, owner, changes, address=address)
        return await self.me(request)
