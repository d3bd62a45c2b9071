"""Cartesia's HTTP routes ``/voices`` and ``/voices/{id}``: speakers and stored voices."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request

from runtime.errors import InvalidConfig, VoiceNotFound
from runtime.server.cartesia.paging import EndingBefore, StartingAfter, page, page_size
from runtime.server.cartesia.responses import CartesiaVoiceEntry, CartesiaVoicePage, describe_cartesia
from runtime.server.engine_host import EngineHost
from runtime.server.http.paging import PageSize
from runtime.server.voices.known_voices import KnownVoice, SearchWords, known_voice, known_voices
from runtime.server.wire import Reply

GET = ["GET", "HEAD"]


def add_routes(app: FastAPI, host: EngineHost) -> None:
    """Register Cartesia's HTTP routes for voices."""

    @app.api_route("/voices", methods=GET)
    @app.api_route("/voices/", methods=GET)
    @describe_cartesia(response=CartesiaVoicePage, refusals=frozenset({InvalidConfig}))
    async def voices(
        request: Request,
        limit: PageSize = "10",
        starting_after: StartingAfter = "",
        ending_before: EndingBefore = "",
        q: SearchWords = "",
    ) -> Reply:
        """Return a page of the voices whose name or description contains ``q``."""
        size = page_size(limit)
        listed = [_entry(voice) for voice in known_voices(host, request.headers, q)]
        return page(listed, size, starting_after, ending_before)

    @app.api_route("/voices/{voice_id}", methods=GET)
    @describe_cartesia(response=CartesiaVoiceEntry, refusals=frozenset({VoiceNotFound}))
    async def voice(request: Request, voice_id: str) -> Reply:
        """Return the speaker or stored voice with this id or name."""
        return _entry(known_voice(host, request.headers, voice_id))


def _entry(voice: KnownVoice) -> dict[str, Any]:
    return {
        "id": voice.id,
        "name": voice.name,
        "tagline": "",
        "description": voice.description,
        "language": voice.language,
        "locales": [{"locale": voice.language, "is_native": True}],
        "created_at": datetime.fromtimestamp(voice.created_at, UTC).isoformat(),
        "access": "private" if voice.is_owner else "public",
        "visibility": "owner" if voice.is_owner else "all",
        "is_owner": voice.is_owner,
        "is_public": not voice.is_owner,
    }
