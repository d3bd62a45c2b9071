"""Account routes of ElevenLabs' API, which clients call on startup.

Usage is neither counted nor charged.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request

from runtime.server.elevenlabs.responses import (
    ElevenLabsSubscription,
    ElevenLabsUser,
    ElevenLabsUsersSubscription,
    describe_elevenlabs,
)
from runtime.server.engine_host import OWNER_HEADER, EngineHost
from runtime.server.voices.known_voices import known_voices
from runtime.server.wire import Reply

PATH = "/v1/user"
GET = ["GET", "HEAD"]


def add_routes(app: FastAPI, host: EngineHost) -> None:
    """Register ElevenLabs' HTTP routes for the account."""

    def voices(request: Request) -> dict[str, Any]:
        count = sum(voice.is_owner for voice in known_voices(host, request.headers))
        # Maximum number of voices that the owner may have, or 0 for no limit.
        limit = host.settings.server.owned_voices if OWNER_HEADER in request.headers else 0
        return {"voice_slots_used": count, **({"voice_limit": limit} if limit else {})}

    @app.api_route(PATH, methods=GET)
    @describe_elevenlabs(response=ElevenLabsUser)
    async def user(request: Request) -> Reply:
        """Return the account that all clients share, with its subscription."""
        return ElevenLabsUser(subscription=ElevenLabsUsersSubscription(**voices(request))).model_dump()

    @app.api_route(f"{PATH}/subscription", methods=GET)
    @describe_elevenlabs(response=ElevenLabsSubscription)
    async def subscription(request: Request) -> Reply:
        """Return the subscription of the account with its limits."""
        return ElevenLabsSubscription(**voices(request)).model_dump()
