"""Serves Cartesia's ``GET /voices`` and ``/voices/{id}``: speakers and stored voices as its clients read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request

from runtime.errors import InvalidConfig, VoiceNotFound
from runtime.request import Mode
from runtime.server.engine_host import Host
from runtime.server.languages import code_of
from runtime.server.wire import Reply

GET = ["GET", "HEAD"]
_MOST = 100  # in a page, as there


def add_routes(app: FastAPI, host: Host) -> None:
    """Register the routes."""

    @app.api_route("/voices", methods=GET)
    @app.api_route("/voices/", methods=GET)
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
            found for found in _all(host, request) if words in f"{found['name']} {found['description']}".casefold()
        ]
        ids = [found["id"] for found in listed]
        if ending_before in ids:
            end = ids.index(ending_before)
            start = max(0, end - size)
            return {"data": listed[start:end], "has_more": start > 0}
        start = ids.index(starting_after) + 1 if starting_after in ids else 0
        return {"data": listed[start : start + size], "has_more": start + size < len(listed)}

    @app.api_route("/voices/{voice_id}", methods=GET)
    async def voice(request: Request, voice_id: str) -> Reply:
        for found in _all(host, request):
            if voice_id in (found["id"], found["name"]):
                return found
        raise VoiceNotFound


def _all(host: Host, request: Request) -> list[dict[str, Any]]:
    """The speakers of what is loaded, then the stored voices that the request sees."""
    library = host.owner_library(request.headers)
    cards = host.engine.cards if host.problem is None else ()
    speakers = {
        name: _voice(
            name, name, f"A speaker of {card.name}.", card.languages[0] if card.languages else "", card.created
        )
        for card in cards
        if Mode.CUSTOM_VOICE in card.modes
        for name in card.speakers
    }
    stored = [
        _voice(
            card.id, card.name, card.description or "", card.language, card.created_at, is_owner=library.owns(card.id)
        )
        for card in library.cards()
    ]
    return [*speakers.values(), *stored]


def _voice(
    voice_id: str, name: str, description: str, language: str, created_at: float, *, is_owner: bool = False
) -> dict[str, Any]:
    code = code_of(language) or "en"
    return {
        "id": voice_id,
        "name": name,
        "tagline": "",
        "description": description,
        "language": code,
        "locales": [{"locale": code, "is_native": True}],
        "created_at": datetime.fromtimestamp(created_at, UTC).isoformat(),
        "access": "private" if is_owner else "public",
        "visibility": "owner" if is_owner else "all",
        "is_owner": is_owner,
        "is_public": not is_owner,
    }
