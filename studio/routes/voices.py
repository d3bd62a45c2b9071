"""Routes of stored voices: deleting one, restoring it from the bin, and making one of a designed take."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runtime.errors import InvalidConfig, SpeechError
from studio.relay.relay import Relay
from studio.routes.responses import WorkerPool, handle_errors, json_response, read_body
from studio.store.audio_files import encoded, tags_of
from studio.store.records import TakeVoice, decode, read, words_heard
from studio.store.store import Store
from studio.store.voice_bin import VoiceBin
from studio.visitors.visitors import Visitors

VOICES = "/v1/audio/voices"


def voice_routes(relay: Relay, bin_: VoiceBin) -> list[Route]:
    """Return the routes. The runtime has no bin, so the studio downloads the file and restores it by an import."""

    def owner(request: Request) -> str:
        return "" if relay.whose is None else relay.whose(request)

    async def delete(request: Request) -> Response:
        """Store the voice's file in the bin, then delete the voice."""
        address = f"{VOICES}/{quote(request.path_params['voice'], safe='')}"
        card = await relay.ask(request, "GET", address)
        if card.status_code != httpx.codes.OK:
            return passed_on(card)
        voice_id = str(card.json()["id"])
        file = await relay.ask(request, "GET", f"{VOICES}/{voice_id}/file")
        if file.status_code != httpx.codes.OK:
            return passed_on(file)
        await asyncio.to_thread(bin_.put, owner(request), voice_id, file.content)
        deleted = await relay.ask(request, "DELETE", f"{VOICES}/{voice_id}")
        if deleted.status_code != httpx.codes.OK:
            await asyncio.to_thread(bin_.forget, owner(request), voice_id)
            return passed_on(deleted)
        return json_response({**deleted.json(), "restorable_s": bin_.keep_s})

    async def restore(request: Request) -> Response:
        """Import the file into the runtime again."""
        voice_id = request.path_params["voice"]
        file = await asyncio.to_thread(bin_.get, owner(request), voice_id)
        kept = await relay.ask(request, "POST", VOICES, files={"file": file})
        if kept.status_code == httpx.codes.OK:
            await asyncio.to_thread(bin_.forget, owner(request), voice_id)
        return passed_on(kept)

    return [
        Route("/studio/voices/{voice}", handle_errors(delete), methods=["DELETE"]),
        Route("/studio/voices/{voice}/restore", handle_errors(restore), methods=["POST"]),
    ]


def passed_on(answer: httpx.Response) -> Response:
    """Pass a runtime's response on unchanged."""
    return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))


# Recorded instead of a speaker's permission. Always English, because it is a record and not a label.
CONSENT = "Designed by description; nobody was recorded."
MAX_PROVENANCE_CHARS = 500  # Characters of a provenance entry.
MAX_ANCESTORS = 32  # Takes searched for the description of a voice.


def take_voice_routes(store: Store, visitors: Visitors, workers: WorkerPool, relay: Relay) -> list[Route]:
    """Return the route. The runtime stores the voice and checks its name."""

    def form_fields(owner: str, take_id: str, name: str) -> tuple[dict[str, str], bytes]:
        record, pcm = store.takes.pcm(owner, take_id)
        if record["mode"] != "voice_design" and record["room"] != "design":
            why = "only a designed voice is kept from a take; a speaker is there anyway, and a clone has its recording"
            raise InvalidConfig(where="take", why=why, param="take")
        origin = provenance(record, description(record, store, owner))
        form = {
            "name": name,
            "ref_text": words_heard(record),
            "consent": CONSENT,
            "speaker_description": origin.get("description", ""),
            "language": origin.get("language", ""),
            "provenance": json.dumps(origin),
        }
        return {field: value for field, value in form.items() if value}, encoded("wav", pcm, tags_of(record))

    async def keep(request: Request) -> Response:
        """Store the take's audio and its exact text as a voice."""
        voice = read(TakeVoice, decode(await read_body(request)))
        owner = visitors.of(request).known
        form, sound = await workers(form_fields, owner, request.path_params["id"], voice.name)
        files = {"audio_sample": ("take.wav", sound)}
        return passed_on(await relay.ask(request, "POST", VOICES, data=form, files=files))

    return [Route("/studio/takes/{id}/voice", handle_errors(keep), methods=["POST"])]


def description(record: dict[str, Any], store: Store, owner: str) -> str:
    """Return the description of a take's voice: its own, or that of the take from which it was derived."""
    for _ in range(MAX_ANCESTORS):
        if words := record["config"].get("instructions"):
            return str(words)
        if not record["parent"]:
            break
        try:
            record = store.takes.find(owner, record["parent"])
        except SpeechError:  # Deleted in the meantime.
            break
    return ""


def provenance(record: dict[str, Any], words: str) -> dict[str, str]:
    """Return the provenance of a take's voice for its file; unknown fields are left out."""
    model = record["model"] if isinstance(record["model"], dict) else {"id": record["model"]}
    known = {
        "source": "design",
        "model": model.get("id"),
        "revision": model.get("revision") or model.get("fingerprint"),
        "fingerprint": model.get("fingerprint"),
        "seed": record["seed"],
        "description": words,
        "language": record["config"].get("language") or record["language"],
        "take": record["id"],
        "sha256": record["sha256"],
        "parent": record["parent"],
    }
    return {
        name: str(value)[:MAX_PROVENANCE_CHARS] for name, value in known.items() if value is not None and value != ""
    }
