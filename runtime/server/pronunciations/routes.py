"""HTTP routes `/v1/audio/pronunciations` for stored pronunciation dictionaries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request

from runtime.errors import DictionaryNotFound
from runtime.pronunciations.dictionary import PronunciationDictionary, Word
from runtime.pronunciations.folder import DictionaryEdit
from runtime.pronunciations.owner_dictionaries import OwnerDictionaries
from runtime.server.engine_host import EngineHost
from runtime.server.http.speech import read_fields
from runtime.server.openapi.operations import DICTIONARIES, describe_operation
from runtime.server.pronunciations.schema import (
    ChangedDictionary,
    DeletedDictionary,
    DictionaryList,
    NewDictionary,
    StoredDictionary,
)
from runtime.server.text.pronunciations import Pronunciation
from runtime.server.wire import Reply, validate_fields

GET = ["GET", "HEAD"]
PATH = "/v1/audio/pronunciations"
ONE = PATH + "/{dictionary_id}"
EXAMPLE = {"name": "Our names", "pronunciations": [{"word": "Nguyen", "say_as": "Win"}]}
CREATING = DICTIONARIES - {DictionaryNotFound}


def add_routes(app: FastAPI, host: EngineHost) -> None:
    """Register the HTTP routes of the stored pronunciation dictionaries."""

    @app.api_route(PATH, methods=GET)
    @describe_operation(response=DictionaryList)
    async def dictionaries(request: Request) -> Reply:
        """List the stored pronunciation dictionaries without their entries."""
        dictionaries = dictionaries_of(host, request)
        data = await host.run_in_worker(
            lambda: [describe_dictionary(dictionaries, found) for found in dictionaries.all()]
        )
        return {"object": "list", "data": data}

    @app.post(PATH)
    @describe_operation(body=NewDictionary, example=EXAMPLE, response=StoredDictionary, refusals=CREATING)
    async def create(request: Request) -> Reply:
        """Store a new pronunciation dictionary and return the dictionary with its id."""
        body = validate_fields(NewDictionary, await read_fields(request, host))
        dictionaries, entries = dictionaries_of(host, request), as_words(body.pronunciations)
        return await host.run_in_worker(
            lambda: describe_with_entries(
                dictionaries, dictionaries.create_dictionary(body.name, entries, description=body.description)
            )
        )

    @app.api_route(ONE, methods=GET)
    @describe_operation(response=StoredDictionary, refusals=frozenset({DictionaryNotFound}))
    async def dictionary(request: Request, dictionary_id: str) -> Reply:
        """Return one pronunciation dictionary with its entries."""
        dictionaries = dictionaries_of(host, request)
        return await host.run_in_worker(lambda: describe_with_entries(dictionaries, dictionaries.get(dictionary_id)))

    @app.patch(ONE)
    @describe_operation(body=ChangedDictionary, response=StoredDictionary, refusals=DICTIONARIES)
    async def change(request: Request, dictionary_id: str) -> Reply:
        """Change the name, the description or the entries of a pronunciation dictionary."""
        body = validate_fields(ChangedDictionary, await read_fields(request, host))
        entries = None if body.pronunciations is None else as_words(body.pronunciations)
        edit = DictionaryEdit(
            name=body.name, description=body.description, words=None if entries is None else lambda _: entries
        )
        dictionaries = dictionaries_of(host, request)
        return await host.run_in_worker(
            lambda: describe_with_entries(dictionaries, dictionaries.change(dictionary_id, edit))
        )

    @app.delete(ONE)
    @describe_operation(response=DeletedDictionary, refusals=DICTIONARIES)
    async def delete(request: Request, dictionary_id: str) -> Reply:
        """Delete a pronunciation dictionary permanently."""
        await host.run_in_worker(dictionaries_of(host, request).delete, dictionary_id)
        return {"id": dictionary_id, "object": "audio.pronunciation_dictionary.deleted", "deleted": True}


def dictionaries_of(host: EngineHost, request: Request) -> OwnerDictionaries:
    """Return the pronunciation dictionaries of the owner named in the request's headers."""
    return host.owner_library(request.headers).pronunciations


def as_words(entries: Iterable[Pronunciation]) -> tuple[Word, ...]:
    """Convert the pronunciations of a request body to dictionary entries."""
    return tuple(entry.as_word() for entry in entries)


def describe_dictionary(owned: OwnerDictionaries, dictionary: PronunciationDictionary) -> dict[str, Any]:
    """Return the JSON description of a dictionary without its entries.

    Thread: a worker, because the owner's dictionaries are read from disk.
    """
    return {
        "id": dictionary.id,
        "object": "audio.pronunciation_dictionary",
        "name": dictionary.name,
        "description": dictionary.description,
        "version": dictionary.latest.id,
        "words": len(dictionary.latest.words),
        "created_at": int(dictionary.created_at),
        "updated_at": int(dictionary.latest.created_at),
        "archived": dictionary.archived_at is not None,
        "yours": owned.owns(dictionary.id),
    }


def describe_with_entries(owned: OwnerDictionaries, dictionary: PronunciationDictionary) -> Reply:
    """Return the JSON description of a dictionary with its entries.

    Thread: a worker, because the owner's dictionaries are read from disk.
    """
    return {
        **describe_dictionary(owned, dictionary),
        "pronunciations": [asdict(word) for word in dictionary.latest.words],
    }
