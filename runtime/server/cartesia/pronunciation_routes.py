"""Cartesia's HTTP routes ``/pronunciation-dicts`` for stored pronunciation dictionaries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request, Response

from runtime.errors import DictionaryNotFound, InvalidConfig
from runtime.pronunciations.dictionary import PronunciationDictionary
from runtime.pronunciations.folder import DictionaryEdit
from runtime.server.cartesia.paging import EndingBefore, StartingAfter, page, page_size
from runtime.server.cartesia.responses import CartesiaDictionary, CartesiaDictionaryPage, describe_cartesia
from runtime.server.cartesia.schema import ChangedDict, NewDict
from runtime.server.engine_host import EngineHost
from runtime.server.http.paging import PageSize
from runtime.server.http.speech import read_fields
from runtime.server.openapi.operations import DICTIONARIES
from runtime.server.pronunciations.routes import CREATING, dictionaries_of
from runtime.server.wire import Reply, validate_fields

GET = ["GET", "HEAD"]
PATH = "/pronunciation-dicts"
ONE = PATH + "/{dictionary_id}"
_OWNER_NAME = "voicewright"  # Owner of all dictionaries in Cartesia's responses.


def add_routes(app: FastAPI, host: EngineHost) -> None:
    """Register Cartesia's HTTP routes for pronunciation dictionaries.

    Cartesia's clients request the list with a trailing slash.
    """

    @app.api_route(PATH, methods=GET)
    @app.api_route(PATH + "/", methods=GET)
    @describe_cartesia(response=CartesiaDictionaryPage, refusals=frozenset({InvalidConfig}))
    async def dictionaries(
        request: Request, limit: PageSize = "10", starting_after: StartingAfter = "", ending_before: EndingBefore = ""
    ) -> Reply:
        """Return a page of the stored pronunciation dictionaries, the newest first."""
        size = page_size(limit)
        listed = [_entry(found) for found in await host.run_in_worker(dictionaries_of(host, request).all)]
        return page(listed, size, starting_after, ending_before)

    @app.post(PATH)
    @app.post(PATH + "/")
    @describe_cartesia(
        body=NewDict,
        example={"name": "Our names", "items": [{"text": "Nguyen", "alias": "Win"}]},
        response=CartesiaDictionary,
        refusals=CREATING,
    )
    async def create(request: Request) -> Reply:
        """Store a new pronunciation dictionary and return the dictionary with its id."""
        body = validate_fields(NewDict, await read_fields(request, host))
        entries = [item.as_word() for item in body.items or ()]
        return _entry(await host.run_in_worker(dictionaries_of(host, request).create_dictionary, body.name, entries))

    @app.api_route(ONE, methods=GET)
    @describe_cartesia(response=CartesiaDictionary, refusals=frozenset({DictionaryNotFound}))
    async def dictionary(request: Request, dictionary_id: str) -> Reply:
        """Return one pronunciation dictionary with its items."""
        return _entry(await host.run_in_worker(dictionaries_of(host, request).get, dictionary_id))

    @app.patch(ONE)
    @describe_cartesia(body=ChangedDict, response=CartesiaDictionary, refusals=DICTIONARIES)
    async def change(request: Request, dictionary_id: str) -> Reply:
        """Change the name or the items of a pronunciation dictionary."""
        body = validate_fields(ChangedDict, await read_fields(request, host))
        entries = None if body.items is None else tuple(item.as_word() for item in body.items)
        edit = DictionaryEdit(name=body.name, words=None if entries is None else lambda _: entries)
        return _entry(await host.run_in_worker(dictionaries_of(host, request).change, dictionary_id, edit))

    @app.delete(ONE, status_code=204)
    @describe_cartesia(status=204, refusals=DICTIONARIES)
    async def delete(request: Request, dictionary_id: str) -> Response:
        """Delete a pronunciation dictionary."""
        await host.run_in_worker(dictionaries_of(host, request).delete, dictionary_id)
        return Response(status_code=204)


def _entry(dictionary: PronunciationDictionary) -> dict[str, Any]:
    return {
        "id": dictionary.id,
        "name": dictionary.name,
        "owner_id": _OWNER_NAME,
        "pinned": False,
        "created_at": datetime.fromtimestamp(dictionary.created_at, UTC).isoformat(),
        "items": [
            {"text": word.word, "alias": word.say_as, "case_sensitive": word.case_sensitive}
            for word in dictionary.latest.words
        ],
    }
