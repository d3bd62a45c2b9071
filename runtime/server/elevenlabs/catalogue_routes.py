"""ElevenLabs' HTTP routes that list voices and models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request

from runtime.errors import InvalidConfig, VoiceNotFound
from runtime.request import ModelCard
from runtime.server.elevenlabs.responses import (
    ElevenLabsLanguage,
    ElevenLabsModel,
    ElevenLabsVoice,
    ElevenLabsVoicePage,
    ElevenLabsVoices,
    ElevenLabsVoiceSettings,
    describe_elevenlabs,
)
from runtime.server.engine_host import EngineHost
from runtime.server.http import paging
from runtime.server.voices.known_voices import KnownVoice, SearchWords, known_voice, known_voices
from runtime.server.wire import Reply, code_of
from runtime.settings import Limits

GET = ["GET", "HEAD"]
KEY_HEADER = "xi-api-key"  # Header that only ElevenLabs' clients send.


def add_routes(app: FastAPI, host: EngineHost) -> None:
    """Register ElevenLabs' HTTP routes for voices and voice settings."""

    @app.api_route("/v1/voices", methods=GET)
    @describe_elevenlabs(response=ElevenLabsVoices)
    async def voices(request: Request) -> Reply:
        """Return all speakers and stored voices."""
        return {"voices": [_voice(voice) for voice in known_voices(host, request.headers)]}

    @app.api_route("/v2/voices", methods=GET)
    @describe_elevenlabs(response=ElevenLabsVoicePage, refusals=frozenset({InvalidConfig}))
    async def search(
        request: Request,
        page_size: paging.PageSize = "10",
        search: SearchWords = "",
        next_page_token: paging.Cursor = "",
    ) -> Reply:
        """Return a page of the voices whose name or description contains ``search``."""
        size = paging.page_size(page_size, "page_size")
        wanted = request.query_params.getlist("voice_ids")
        listed = [voice for voice in known_voices(host, request.headers, search) if not wanted or voice.id in wanted]
        page = paging.page(listed, lambda voice: voice.id, size, next_page_token)
        return {
            "voices": [_voice(voice) for voice in page.items],
            "has_more": page.has_more,
            "total_count": len(listed),
            "next_page_token": page.items[-1].id if page.has_more else None,
        }

    @app.api_route("/v1/voices/{voice_id}", methods=GET)
    @describe_elevenlabs(response=ElevenLabsVoice, refusals=frozenset({VoiceNotFound}))
    async def voice(request: Request, voice_id: str) -> Reply:
        """Return the speaker or stored voice with this id or name."""
        return _voice(known_voice(host, request.headers, voice_id))

    @app.api_route("/v1/voices/settings/default", methods=GET)
    @describe_elevenlabs(response=ElevenLabsVoiceSettings)
    async def default_settings() -> Reply:
        """Return the voice settings that requests without settings use."""
        return ElevenLabsVoiceSettings().model_dump()

    @app.api_route("/v1/voices/{voice_id}/settings", methods=GET)
    @describe_elevenlabs(response=ElevenLabsVoiceSettings, refusals=frozenset({VoiceNotFound}))
    async def voice_settings(request: Request, voice_id: str) -> Reply:
        """Return the settings of one voice, which are the same for all voices."""
        known_voice(host, request.headers, voice_id)
        return ElevenLabsVoiceSettings().model_dump()


def models(cards: Sequence[ModelCard], limits: Limits) -> list[Reply]:
    """Return the response of ``GET /v1/models`` for ElevenLabs' clients: a list of models."""
    return [
        ElevenLabsModel(
            model_id=card.name,
            name=card.name,
            description=f"Speaks {', '.join(mode.value for mode in card.modes)}.",
            max_characters_request_free_user=limits.max_text_chars,
            max_characters_request_subscribed_user=limits.max_text_chars,
            maximum_text_length_per_request=limits.max_text_chars,
            languages=[
                ElevenLabsLanguage(language_id=code, name=name.capitalize())
                for name in card.languages
                if (code := code_of(name))
            ],
        ).model_dump()
        for card in cards
    ]


def _voice(voice: KnownVoice) -> dict[str, Any]:
    return ElevenLabsVoice(
        voice_id=voice.id,
        name=voice.name,
        category="premade" if voice.is_speaker else "cloned",
        description=voice.description,
        labels={"language": voice.language},
        is_owner=voice.is_owner,
        created_at_unix=int(voice.created_at),
    ).model_dump()
