"""Routes `studio/voices/{voice}`: deleting a stored voice, and restoring it from the bin."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from studio.relay.relay import Relay
from studio.routes.responses import handle_errors, json_response
from studio.store.voice_bin import VoiceBin

VOICES = "/v1/audio/voices"


def voice_routes(relay: Relay, bin_: VoiceBin) -> list[Route]:
    """Return the routes. The runtime has no bin: it hands the file over, and takes it back under its id and name."""

    def owner(request: Request) -> str:
        return "" if relay.whose is None else relay.whose(request)

    async def delete(request: Request) -> Response:
        """Take the voice's file, then delete it."""
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
        """Hand the file back to the runtime."""
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
