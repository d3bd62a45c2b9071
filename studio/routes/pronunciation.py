"""Routes `studio/pronunciation`: each visitor's pronunciation dictionary."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from studio.routes.responses import WorkerPool, handle_errors, json_response, read_body
from studio.store.pronunciations import EMPTY
from studio.store.records import PronunciationFields, TextToSay, decode, read
from studio.store.store import Store
from studio.visitors.visitors import Visitors


class PronunciationRoutes:
    """Routes of pronunciation dictionaries. Thread: event loop; workers access the disk."""

    def __init__(self, store: Store, visitors: Visitors, workers: WorkerPool) -> None:
        self._store = store
        self._visitors = visitors
        self._workers = workers

    def routes(self) -> list[Route]:
        table = [
            ("/studio/pronunciation", self.dictionary, ["GET"]),
            ("/studio/pronunciation", self.put, ["PUT"]),
            ("/studio/pronunciation/said", self.say, ["POST"]),
        ]
        return [Route(path, handle_errors(endpoint), methods=methods) for path, endpoint, methods in table]

    async def dictionary(self, request: Request) -> Response:
        """Return the whole list; empty for an unknown visitor."""
        owner = self._visitors.of(request).owner
        return json_response(EMPTY if owner is None else await self._workers(self._store.pronunciations.of, owner))

    async def put(self, request: Request) -> Response:
        """Replace the stored list."""
        keeper = self._visitors.of(request).keeper
        body = await read_body(request)
        return json_response(await self._workers(self._put, *keeper, body))

    def _put(self, owner: str, address: str | None, body: bytes) -> dict[str, Any]:
        return self._store.pronunciations.put(owner, read(PronunciationFields, decode(body)), address=address)

    async def say(self, request: Request) -> Response:
        """Return the text with replaced words, and the number of replacements."""
        asked = read(TextToSay, decode(await read_body(request)))
        return json_response(
            await self._workers(self._store.pronunciations.said, self._visitors.of(request).owner, asked)
        )
