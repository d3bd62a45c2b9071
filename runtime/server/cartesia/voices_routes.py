"""Serves Cartesia's ``GET /voices`` and ``/voices/{id}``: speakers and stored voices as its clients read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request

from runtime.errors import InvalidConfig, VoiceNotFound
from runtime.server.cartesia.answers import CartesiaVoiceEntry, CartesiaVoicePage
from runtime.server.engine_host import Host
from runtime.server.openapi.operations import documented
from runtime.server.voices.known_voices import KnownVoice, known_voice, known_voices
from runtime.server.wire import Reply

GET = ["GET", "HEAD"]
_MOST = 100  # in a page, as there


def add_routes(app: FastAPI, host: Host) -> None:
    """Register the routes."""

    @app.api_route("/voices", methods=GET)
    @app.api_route("/voices/", methods=GET)
    @documented(
        answer=CartesiaVoicePage,
        refusals=frozenset({InvalidConfig}),
        parameters={
            "limit": f"how many, 1 to {_MOST}",
            "starting_after": "the id of the last of the page before",
            "ending_before": "the id of the first of the page behind",
            "q": "words of the name or description",
        },
    )
    async def voices(
        request: Request,
        limit: str = "10",
        starting_after: str = "",
        ending_before: str = "",
        q: str = "",
    ) -> Reply:
        """A page of the voices whose name or description holds ``q``."""
        if not limit.isascii() or not limit.isdecimal() or not 1 <= int(limit[:4]) <= _MOST:
            raise InvalidConfig(where="limit", why=f"it must be a number from 1 to {_MOST}", param="limit")
        size, words = int(limit), q.casefold()
        listed = [
            _entry(voice)
            for voice in known_voices(host, request.headers)
            if words in f"{voice.name} {voice.description}".casefold()
        ]
        ids = [found["id"] for found in listed]
        if ending_before in ids:
            end = ids.index(ending_before)
            start = max(0, end - size)
            return {"data": listed[start:end], "has_more": start > 0}
        start = ids.index(starting_after) + 1 if starting_after in ids else 0
        return {"data": listed[start : start + size], "has_more": start + size < len(listed)}

    @app.api_route("/voices/{voice_id}", methods=GET)
    @documented(answer=CartesiaVoiceEntry, refusals=frozenset({VoiceNotFound}))
    async def voice(request: Request, voice_id: str) -> Reply:
        """One of them."""
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
