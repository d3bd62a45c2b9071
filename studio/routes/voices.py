"""Routes that delete and restore stored voices, and store a recording as a voice."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote
from weakref import WeakValueDictionary

import httpx
from starlette.requests import Request
from starlette.responses import Response

from runtime.errors import InvalidConfig, SpeechError
from runtime.shared.names import STORED_PREFIX, parse_blend
from studio.relay.relay import Relay
from studio.routes.responses import RouteTable, StoreRoutes, WorkerPool, json_response, query_flag, read_body
from studio.store.audio_files import encoded, tags_of
from studio.store.records import TakeVoice, decode, read, spoken_text
from studio.store.store import Store
from studio.visitors.visitors import Visitors

VOICES = "/v1/audio/voices"
# Consent text of a designed voice. It is a record and not a label, so it is not translated.
CONSENT = "Designed by description; nobody was recorded."
MAX_PROVENANCE_CHARS = 500  # Maximum length of a provenance entry in characters.
MAX_ANCESTORS = 32  # Maximum number of parent takes that are searched for the description of a voice.


class VoiceRoutes(StoreRoutes):
    """HTTP routes of stored voices.

    The runtime stores the voices, but has no recycle bin for them. Therefore, the studio downloads a voice before it is
    deleted, and imports it again to restore it.

    Thread: event loop. Worker threads access the disk.
    """

    def __init__(self, store: Store, visitors: Visitors, workers: WorkerPool, relay: Relay) -> None:
        super().__init__(store, visitors, workers)
        self._relay = relay
        # Locks of running restorations by owner and voice, so that a double click imports a voice once.
        self._restore_locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def table(self) -> RouteTable:
        return [
            ("POST", "/studio/takes/{id}/voice", self.keep),
            ("GET", "/studio/deleted-voices", self.deleted),
            ("GET", "/studio/voices/{voice}", self.show),
            ("DELETE", "/studio/voices/{voice}", self.delete),
            ("POST", "/studio/voices/{voice}/restore", self.restore),
        ]

    async def deleted(self, request: Request) -> Response:
        """Return the visitor's voices in the recycle bin, with their remaining seconds."""
        return json_response({"voices": await self._workers(self._store.voice_bin.all, self._owner(request))})

    async def show(self, request: Request) -> Response:
        """Return the number of recordings that use a stored voice.

        The response also has the time in seconds during which a deletion of the voice can be undone.
        """
        card = await self._card(request)
        in_bin = card.status_code == httpx.codes.NOT_FOUND and await self._is_in_bin(request)
        if card.status_code != httpx.codes.OK and not in_bin:
            return forward_response(card)
        voice_id, name = (request.path_params["voice"], None) if in_bin else _names(card)
        takes = await self._takes_of(request, voice_id, name)
        restorable_s = self._store.voice_bin.keep_s
        return json_response({"id": voice_id, "in_bin": in_bin, "takes": len(takes), "restorable_s": restorable_s})

    async def delete(self, request: Request) -> Response:
        """Move a stored voice into the recycle bin.

        The query `?now=1` deletes it permanently. With `?now=1&takes=1`, the recordings with this voice are deleted
        too.
        """
        is_now, with_takes = query_flag(request, "now"), query_flag(request, "takes")
        if with_takes and not is_now:
            raise InvalidConfig(
                where="takes", why="takes can be deleted with a voice only permanently: also send now=1", param="takes"
            )
        card = await self._card(request)
        if is_now and card.status_code == httpx.codes.NOT_FOUND and await self._is_in_bin(request):
            voice_id, name = request.path_params["voice"], None
            response: dict[str, Any] = {"id": voice_id, "deleted": True}
        elif card.status_code != httpx.codes.OK:
            return forward_response(card)
        else:
            voice_id, name = _names(card)
            deletion = await self._delete_in_runtime(request, voice_id, into_bin=not is_now)
            if deletion.status_code != httpx.codes.OK:
                return forward_response(deletion)
            response = deletion.json()
        takes = await self._takes_of(request, voice_id, name)
        if is_now:
            await self._workers(self._store.voice_bin.forget, self._owner(request), voice_id)
        if with_takes:
            await self._workers(self._store.takes.erase, takes)
            response["takes_deleted"], takes = len(takes), []
        restorable_s = 0 if is_now else self._store.voice_bin.keep_s
        return json_response({**response, "restorable_s": restorable_s, "takes": len(takes)})

    async def restore(self, request: Request) -> Response:
        """Restore a deleted voice by importing its file into the runtime.

        A voice that is already restored is returned unchanged, so that a double click is not an error.
        """
        owner, voice_id = self._owner(request), request.path_params["voice"]
        async with self._restore_locks.setdefault((owner, voice_id), asyncio.Lock()):
            card = await self._card(request)
            if card.status_code == httpx.codes.OK:
                return forward_response(card)
            file = await self._workers(self._store.voice_bin.get, owner, voice_id)
            response = await self._relay.send(request, "POST", VOICES, files={"file": file})
            if response.status_code == httpx.codes.OK:
                await self._workers(self._store.voice_bin.forget, owner, voice_id)
        return forward_response(response)

    async def keep(self, request: Request) -> Response:
        """Store a recording of generated speech as a voice.

        The recording and its exact text become the reference of the voice. The runtime validates the name of the voice.
        """
        voice = read(TakeVoice, decode(await read_body(request)))
        owner = self._visitors.identify(request).required_owner
        form, sound = await self._workers(self._form_fields, owner, request.path_params["id"], voice.name)
        if named := parse_blend(form.pop("blend", "")):
            form["consent"] = " ".join([await self._consent(request, name) for name, _ in named])
        files = {"audio_sample": ("take.wav", sound)}
        return forward_response(await self._relay.send(request, "POST", VOICES, data=form, files=files))

    async def _consent(self, request: Request, name: str) -> str:
        """Return the consent text of one voice of a blend, for the record of the blended voice."""
        stored = name.removeprefix(STORED_PREFIX)
        card = await self._relay.send(request, "GET", f"{VOICES}/{quote(stored, safe='')}")
        if card.status_code != httpx.codes.OK:
            return f"{name}: a speaker of the checkpoint."
        fields = card.json()
        return f"{fields['name']}: {fields['consent']}"

    def _form_fields(self, owner: str, take_id: str, name: str) -> tuple[dict[str, str], bytes]:
        record, pcm = self._store.takes.pcm(owner, take_id)
        if record["mode"] != "voice_design" and record["room"] != "design":
            why = "only takes of designed voices can become voices"
            raise InvalidConfig(where="take", why=why, param="take")
        origin = provenance(record, description(record, self._store, owner))
        form = {
            "name": name,
            "ref_text": spoken_text(record),
            "consent": CONSENT,
            "speaker_description": origin.get("description") or ("blend" in origin and record["label"]) or "",
            "language": origin.get("language", ""),
            "provenance": json.dumps(origin),
            "blend": origin.get("blend", ""),
        }
        return {field: value for field, value in form.items() if value}, encoded("wav", pcm, tags_of(record))

    async def _card(self, request: Request) -> httpx.Response:
        return await self._relay.send(request, "GET", f"{VOICES}/{quote(request.path_params['voice'], safe='')}")

    async def _delete_in_runtime(self, request: Request, voice_id: str, *, into_bin: bool) -> httpx.Response:
        owner, address = self._owner(request), f"{VOICES}/{voice_id}"
        if into_bin:
            file = await self._relay.send(request, "GET", f"{address}/file")
            if file.status_code != httpx.codes.OK:
                return file
            await self._workers(self._store.voice_bin.put, owner, voice_id, file.content)
        deleted = await self._relay.send(request, "DELETE", address)
        if into_bin and deleted.status_code != httpx.codes.OK:
            await self._workers(self._store.voice_bin.forget, owner, voice_id)
        return deleted

    async def _is_in_bin(self, request: Request) -> bool:
        return await self._workers(self._store.voice_bin.has, self._owner(request), request.path_params["voice"])

    async def _takes_of(self, request: Request, voice_id: str, name: str | None) -> list[str]:
        owner = self._visitors.identify(request).owner
        return [] if owner is None else await self._workers(self._store.takes.of_voice, owner, voice_id, name)

    def _owner(self, request: Request) -> str:
        """Return the owner name under which the runtime stores the visitor's voices."""
        return "" if self._relay.owner_of is None else self._relay.owner_of(request)


def _names(card: httpx.Response) -> tuple[str, str]:
    """Return the id and the name of the voice in a response of the runtime."""
    fields = card.json()
    return str(fields["id"]), str(fields["name"])


def forward_response(response: httpx.Response) -> Response:
    """Return the runtime's response unchanged as a response of the studio."""
    return Response(response.content, response.status_code, media_type=response.headers.get("content-type"))


def description(record: dict[str, Any], store: Store, owner: str) -> str:
    """Return the description from which the voice of a recording was designed.

    If the recording has no description, the description of the nearest recording from which it was made is returned. If
    there is none, the result is an empty string.

    Args:
        record: Metadata record of the recording.
        store: Store of the studio.
        owner: Owner of the recording.
    """
    for _ in range(MAX_ANCESTORS):
        if instructions := record["config"].get("instructions"):
            return str(instructions)
        if not record["parent"]:
            break
        try:
            record = store.takes.find(owner, record["parent"])
        except SpeechError:  # The take was deleted in the meantime.
            break
    return ""


def provenance(record: dict[str, Any], instructions: str) -> dict[str, str]:
    """Return data about the origin of a recording, such as the model and the seed.

    The data is stored in the voice file that is made from the recording. `instructions` is the description of the
    voice.
    """
    model = record["model"] if isinstance(record["model"], dict) else {"id": record["model"]}
    voice = str(record["config"].get("voice") or "")
    is_blend = parse_blend(voice) is not None
    known = {
        "source": "blend" if is_blend else "design",
        "blend": voice if is_blend else None,
        "model": model.get("id"),
        "revision": model.get("revision") or model.get("fingerprint"),
        "fingerprint": model.get("fingerprint"),
        "seed": record["seed"],
        "description": instructions,
        "language": record["config"].get("language") or record["language"],
        "take": record["id"],
        "sha256": record["sha256"],
        "parent": record["parent"],
    }
    return {
        name: str(value)[:MAX_PROVENANCE_CHARS] for name, value in known.items() if value is not None and value != ""
    }
