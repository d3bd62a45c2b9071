"""List of all voices that a request can select: speakers, then stored voices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query

from runtime.errors import VoiceNotFound
from runtime.server.engine_host import EngineHost
from runtime.server.wire import code_of

SearchWords = Annotated[str, Query(description="words of the name or description")]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownVoice:
    """Voice that a request can select: a speaker of a checkpoint, or a stored voice."""

    id: str  # Id of a stored voice, or name of a speaker in a checkpoint.
    name: str
    description: str
    language: str  # Language code of the voice.
    created_at: float  # Creation time (Unix time).
    is_speaker: bool = False
    is_owner: bool = False  # True if the caller may change the voice.


def known_voices(host: EngineHost, headers: Mapping[str, str], search: str = "") -> list[KnownVoice]:
    """Return the speakers, then the stored voices of the owner named in `headers`.

    Args:
        search: Text that the name or the description of each voice contains, in upper or lower case.
    """
    library = host.owner_library(headers)
    speakers = [
        KnownVoice(
            id=speaker.name,
            name=speaker.name,
            description=f"A speaker of {speaker.model}.",
            language=code_of(speaker.language) or "en",
            created_at=speaker.created,
            is_speaker=True,
        )
        for speaker in host.speakers().values()
    ]
    stored = [
        KnownVoice(
            id=card.id,
            name=card.name,
            description=card.description or "",
            language=code_of(card.language) or "en",
            created_at=card.created_at,
            is_owner=library.owns(card.id),
        )
        for card in library.cards()
    ]
    wanted = search.casefold()
    return [voice for voice in (*speakers, *stored) if wanted in f"{voice.name} {voice.description}".casefold()]


def known_voice(host: EngineHost, headers: Mapping[str, str], id_or_name: str) -> KnownVoice:
    """Return the speaker or stored voice with this id or name.

    Raises:
        VoiceNotFound: No voice has this id or name.
    """
    for voice in known_voices(host, headers):
        if id_or_name in (voice.id, voice.name):
            return voice
    raise VoiceNotFound
