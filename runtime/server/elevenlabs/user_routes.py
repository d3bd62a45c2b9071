"""Account routes of ElevenLabs' API, which clients call on startup.

Usage is neither counted nor charged.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request

from runtime.server.elevenlabs.responses import ElevenLabsError, ElevenLabsSubscription, ElevenLabsUser
from runtime.server.engine_host import OWNER_HEADER, Host
from runtime.server.openapi.operations import documented
from runtime.server.voices.known_voices import known_voices
from runtime.server.wire import Reply

PATH = "/v1/user"
GET = ["GET", "HEAD"]

_UNLIMITED = 2**31 - 1  # ElevenLabs' value for "unlimited".
_ACCOUNT_NAME = "voicewright"  # Name of the account that all clients share.


def add_routes(app: FastAPI, host: Host) -> None:
    """Register ElevenLabs' HTTP routes for the account."""

    def subscribed(request: Request) -> dict[str, Any]:
        owned = [voice for voice in known_voices(host, request.headers) if voice.is_owner]
        # Maximum number of voices of the owner, or 0 for no limit.
        limit = host.settings.server.owned_voices if OWNER_HEADER in request.headers else 0
        return {
            "tier": "free",
            "status": "free",
            "character_count": 0,
            "character_limit": _UNLIMITED,
            "max_character_limit_extension": None,
            "max_credit_limit_extension": "unlimited",
            "can_extend_character_limit": False,
            "allowed_to_extend_character_limit": False,
            "next_character_count_reset_unix": None,
            "voice_slots_used": len(owned),
            "voice_limit": limit or _UNLIMITED,
            "can_extend_voice_limit": False,
            "max_voice_add_edits": None,
            "voice_add_edit_counter": 0,
            "professional_voice_slots_used": 0,
            "professional_voice_slots_used_in_workspace": 0,
            "professional_voice_limit": 0,
            "can_use_instant_voice_cloning": False,
            "can_use_professional_voice_cloning": False,
            "currency": None,
            "current_overage": {"amount": "0", "currency": "usd"},
            "billing_period": None,
            "character_refresh_period": None,
        }

    @app.api_route(PATH, methods=GET)
    @documented(answer=ElevenLabsUser, refused_as=ElevenLabsError)
    async def user(request: Request) -> Reply:
        """Return the account that all clients share, with its subscription."""
        return {
            "user_id": _ACCOUNT_NAME,
            "workspace_id": _ACCOUNT_NAME,
            "subscription": subscribed(request),
            "is_new_user": False,
            "can_use_delayed_payment_methods": False,
            "is_onboarding_completed": True,
            "is_onboarding_checklist_completed": True,
            "created_at": 0,
            "seat_type": "workspace_member",
        }

    @app.api_route(f"{PATH}/subscription", methods=GET)
    @documented(answer=ElevenLabsSubscription, refused_as=ElevenLabsError)
    async def subscription(request: Request) -> Reply:
        """Return the subscription of the account with its limits."""
        return {**subscribed(request), "next_invoice": None, "open_invoices": [], "has_open_invoices": False}
