"""Routes `studio/pronunciation`: the pronunciation dictionary of each visitor."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from studio.routes.responses import RouteTable, StoreRoutes, json_response, read_body
from studio.store.pronunciations import EMPTY
from studio.store.records import PronunciationFields, TextToSay, decode, read


class PronunciationRoutes(StoreRoutes):
    """HTTP routes of pronunciation dictionaries.

    Thread: event loop. Worker threads access the disk.
    """

    def table(self) -> RouteTable:
        return [
            ("GET", "/studio/pronunciation", self.dictionary),
            ("PUT", "/studio/pronunciation", self.put),
            ("POST", "/studio/pronunciation/said", self.say),
        ]

    async def dictionary(self, request: Request) -> Response:
        """Return all entries of the visitor's pronunciation dictionary.

        The dictionary of an unknown visitor is empty.
        """
        owner = self._visitors.identify(request).owner
        return json_response(
            EMPTY if owner is None else await self._workers(self._store.pronunciations.load_dictionary, owner)
        )

    async def put(self, request: Request) -> Response:
        """Replace all entries of the visitor's pronunciation dictionary."""
        owner_and_address = self._visitors.identify(request).owner_and_address
        body = await read_body(request)
        return json_response(await self._workers(self._put, *owner_and_address, body))

    def _put(self, owner: str, address: str | None, body: bytes) -> dict[str, Any]:
        return self._store.pronunciations.put(owner, read(PronunciationFields, decode(body)), address=address)

    async def say(self, request: Request) -> Response:
        """Replace words of a text by their pronunciations, and count the replacements.

        The response has the new text and the number of replacements.
        """
        query = read(TextToSay, decode(await read_body(request)))
        return json_response(
            await self._workers(self._store.pronunciations.replace_words, self._visitors.identify(request).owner, query)
        )
