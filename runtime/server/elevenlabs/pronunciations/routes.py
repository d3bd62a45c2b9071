"""ElevenLabs' HTTP routes ``/v1/pronunciation-dictionaries``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request, Response

from runtime.errors import DictionaryNotFound, InvalidConfig, MessageTooLarge
from runtime.pronunciations.dictionary import MAX_WORDS, PronunciationDictionary, Word
from runtime.pronunciations.folder import DictionaryEdit
from runtime.pronunciations.lexicon import MEDIA_TYPE, read_lexicon, write_lexicon
from runtime.pronunciations.owner_dictionaries import OwnerDictionaries
from runtime.server.elevenlabs.pronunciations.rules import (
    ChangedDictionary,
    LexiconForm,
    NewDictionary,
    Rules,
    RuleStrings,
    description_of,
    rule_of,
)
from runtime.server.elevenlabs.responses import (
    ACCOUNT_NAME,
    ElevenLabsAddedDictionary,
    ElevenLabsChangedRules,
    ElevenLabsDictionary,
    ElevenLabsDictionaryPage,
    ElevenLabsWholeDictionary,
    describe_elevenlabs,
)
from runtime.server.engine_host import EngineHost
from runtime.server.http import paging
from runtime.server.http.multipart import read_multipart
from runtime.server.http.speech import read_fields
from runtime.server.openapi.operations import DICTIONARIES, FORM
from runtime.server.pronunciations.routes import CREATING, dictionaries_of
from runtime.server.wire import Checked, Reply, check_choice, validate_fields, without_nulls

PATH = "/v1/pronunciation-dictionaries"
ONE = "/{pronunciation_dictionary_id}"
GET = ["GET", "HEAD"]

_BY_TIME, _BY_NAME, _UP, _DOWN = "creation_time_unix", "name", "ascending", "descending"
_FOUND = frozenset({DictionaryNotFound})
_RULE = {"type": "alias", "string_to_replace": "Nguyen", "alias": "Win"}


def add_routes(app: FastAPI, host: EngineHost) -> None:
    """Register ElevenLabs' HTTP routes for pronunciation dictionaries."""
    router = APIRouter(prefix=PATH)

    async def body_of(request: Request, kind: type[Checked]) -> Checked:
        return validate_fields(kind, without_nulls(await read_fields(request, host)))

    async def changed(request: Request, dictionary_id: str, edit: DictionaryEdit) -> PronunciationDictionary:
        return await host.run_in_worker(dictionaries_of(host, request).change, dictionary_id, edit)

    @router.post("/add-from-rules")
    @describe_elevenlabs(
        body=NewDictionary,
        example={"name": "Our names", "rules": [_RULE]},
        response=ElevenLabsAddedDictionary,
        refusals=CREATING,
    )
    async def add_from_rules(request: Request) -> Reply:
        """Create a pronunciation dictionary from alias rules."""
        body, dictionaries = await body_of(request, NewDictionary), dictionaries_of(host, request)
        entries = merge_entries((), (rule.as_word() for rule in body.rules))
        return _added(
            await host.run_in_worker(
                lambda: dictionaries.create_dictionary(body.name, entries, description=body.description)
            )
        )

    @router.post("/add-from-file")
    @describe_elevenlabs(
        body=LexiconForm, body_media=FORM, response=ElevenLabsAddedDictionary, refusals=CREATING | {MessageTooLarge}
    )
    async def add_from_file(request: Request) -> Reply:
        """Create a pronunciation dictionary from a PLS lexicon with aliases.

        The response lists the words that cannot be used.
        """
        limits, dictionaries = host.settings.limits, dictionaries_of(host, request)
        refused = "send a multipart/form-data form with a name and a file"
        fields, files = await read_multipart(request, limits, what="The pronunciation dictionary", refused=refused)
        if "name" not in fields or "file" not in files:
            raise InvalidConfig(where="body", why=refused, param="name" if "name" not in fields else "file")
        description = description_of(fields.get("description", ""))

        def keep() -> Reply:
            try:
                lexicon = read_lexicon(files["file"])
            except ValueError as error:
                raise InvalidConfig(where="file", why=str(error), param="file") from None
            added = _added(
                dictionaries.create_dictionary(
                    fields["name"], merge_entries((), lexicon.words), description=description
                )
            )
            return added if lexicon.note is None else {**added, "notes": [lexicon.note]}

        return await host.run_in_worker(keep)

    @router.api_route("", methods=GET)
    @describe_elevenlabs(response=ElevenLabsDictionaryPage, refusals=frozenset({InvalidConfig}))
    async def dictionaries(
        request: Request,
        page_size: paging.PageSize = "30",
        cursor: paging.Cursor = "",
        sort: Annotated[str, Query(description=f"{_BY_TIME} or {_BY_NAME}")] = _BY_TIME,
        sort_direction: Annotated[str, Query(description=f"{_UP} or {_DOWN}")] = _DOWN,
        include_archived: Annotated[str, Query(description="true: include archived dictionaries")] = "false",
    ) -> Reply:
        """Return a page of the stored pronunciation dictionaries."""
        size = paging.page_size(page_size, "page_size")
        check_choice(sort, "sort", (_BY_TIME, _BY_NAME))
        check_choice(sort_direction.lower(), "sort_direction", (_UP, _DOWN))
        check_choice(include_archived.lower(), "include_archived", ("true", "false"))
        dictionaries = dictionaries_of(host, request)
        has_all = include_archived.lower() == "true"

        def page() -> Reply:
            listed = [known for known in dictionaries.all() if has_all or known.archived_at is None]
            listed.sort(key=lambda known: known.name.casefold() if sort == _BY_NAME else known.created_at)
            if sort_direction.lower() == _DOWN:
                listed.reverse()
            found = paging.page(listed, lambda known: known.id, size, cursor)
            return {
                "pronunciation_dictionaries": [_entry(dictionaries, known) for known in found.items],
                "next_cursor": found.items[-1].id if found.has_more else None,
                "has_more": found.has_more,
            }

        return await host.run_in_worker(page)

    @router.api_route(ONE, methods=GET)
    @describe_elevenlabs(response=ElevenLabsWholeDictionary, refusals=_FOUND)
    async def dictionary(request: Request, pronunciation_dictionary_id: str) -> Reply:
        """Return one pronunciation dictionary with the rules of its latest version."""
        dictionaries = dictionaries_of(host, request)

        def entry() -> Reply:
            found = dictionaries.get(pronunciation_dictionary_id)
            return {**_entry(dictionaries, found), "rules": [rule_of(word) for word in found.latest.words]}

        return await host.run_in_worker(entry)

    @router.patch(ONE)
    @describe_elevenlabs(body=ChangedDictionary, response=ElevenLabsDictionary, refusals=DICTIONARIES)
    async def change(request: Request, pronunciation_dictionary_id: str) -> Reply:
        """Rename or archive a pronunciation dictionary without creating a new version."""
        body = await body_of(request, ChangedDictionary)
        edit, dictionaries = DictionaryEdit(name=body.name, is_archived=body.archived), dictionaries_of(host, request)
        return await host.run_in_worker(
            lambda: _entry(dictionaries, dictionaries.change(pronunciation_dictionary_id, edit))
        )

    changes_rules = describe_elevenlabs(
        body=Rules, example={"rules": [_RULE]}, response=ElevenLabsChangedRules, refusals=DICTIONARIES
    )

    @router.post(ONE + "/set-rules")
    @changes_rules
    async def set_rules(request: Request, pronunciation_dictionary_id: str) -> Reply:
        """Replace all rules of a pronunciation dictionary, which creates a new version."""
        entries = merge_entries((), [rule.as_word() for rule in (await body_of(request, Rules)).rules])
        return _version(await changed(request, pronunciation_dictionary_id, DictionaryEdit(words=lambda _: entries)))

    @router.post(ONE + "/add-rules")
    @changes_rules
    async def add_rules(request: Request, pronunciation_dictionary_id: str) -> Reply:
        """Add rules to a pronunciation dictionary, replacing rules for the same strings."""
        entries = [rule.as_word() for rule in (await body_of(request, Rules)).rules]
        edit = DictionaryEdit(words=lambda before: merge_entries(before, entries))
        return _version(await changed(request, pronunciation_dictionary_id, edit))

    @router.post(ONE + "/remove-rules")
    @describe_elevenlabs(
        body=RuleStrings, example={"rule_strings": ["Nguyen"]}, response=ElevenLabsChangedRules, refusals=DICTIONARIES
    )
    async def remove_rules(request: Request, pronunciation_dictionary_id: str) -> Reply:
        """Remove rules from a pronunciation dictionary (unknown strings are ignored)."""
        gone = {string.strip() for string in (await body_of(request, RuleStrings)).rule_strings}
        edit = DictionaryEdit(words=lambda before: [word for word in before if word.word not in gone])
        return _version(await changed(request, pronunciation_dictionary_id, edit))

    @router.api_route("/{dictionary_id}/{version_id}/download", methods=GET)
    @describe_elevenlabs(binary_types=(MEDIA_TYPE,), refusals=_FOUND)
    async def download(request: Request, dictionary_id: str, version_id: str) -> Response:
        """Return the rules of one dictionary version as a PLS lexicon."""
        version = await host.run_in_worker(dictionaries_of(host, request).version, dictionary_id, version_id)
        return Response(write_lexicon(version.words), media_type=MEDIA_TYPE)

    app.include_router(router)


def merge_entries(before: Iterable[Word], words: Iterable[Word]) -> tuple[Word, ...]:
    """Merge two sequences of dictionary entries.

    An entry of `words` replaces the entry of the same word in `before`.

    Raises:
        InvalidConfig: The result has more than `MAX_WORDS` entries.
    """
    merged_words = {word.word: word for word in (*before, *words)}
    if len(merged_words) > MAX_WORDS:
        why = f"there would be {len(merged_words)}; the limit of a dictionary is {MAX_WORDS}"
        raise InvalidConfig(where="rules", why=why, param="rules")
    return tuple(merged_words.values())


def _entry(owned: OwnerDictionaries, dictionary: PronunciationDictionary) -> dict[str, Any]:
    """Return the JSON description of a dictionary without its rules.

    Thread: a worker, because the owner's dictionaries are read from disk.
    """
    return {
        **_metadata(dictionary),
        "latest_version_id": dictionary.latest.id,
        "latest_version_rules_num": len(dictionary.latest.words),
        "permission_on_resource": "admin" if owned.owns(dictionary.id) else "viewer",
        "archived_time_unix": None if dictionary.archived_at is None else int(dictionary.archived_at),
    }


def _metadata(dictionary: PronunciationDictionary) -> dict[str, Any]:
    return {
        "id": dictionary.id,
        "name": dictionary.name,
        "created_by": ACCOUNT_NAME,
        "creation_time_unix": int(dictionary.created_at),
        "description": dictionary.description or None,
    }


def _added(dictionary: PronunciationDictionary) -> Reply:
    return {**_metadata(dictionary), **_version(dictionary), "permission_on_resource": "admin"}


def _version(dictionary: PronunciationDictionary) -> Reply:
    return {
        "id": dictionary.id,
        "version_id": dictionary.latest.id,
        "version_rules_num": len(dictionary.latest.words),
    }
