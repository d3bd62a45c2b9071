"""Actions (page features for programs) that store, clone, list and delete voices."""

from __future__ import annotations

from typing import Any, TypedDict
from urllib.parse import quote

from runtime.shared.base64_text import decode_base64
from studio.actions.asking import ActionRefused, StudioClient


class StoredVoice(TypedDict):
    """Voice that is stored in the voice library.

    Requests select it by ``id`` or ``name``.
    """

    id: str
    name: str
    seconds: float
    transcript: str | None
    language: str
    description: str | None
    provenance: dict[str, Any]
    advice: list[str]


async def keep(studio: StudioClient, take: str, name: str) -> StoredVoice:
    """Store a take (a recording of generated speech) as a voice.

    Its audio and its exact text become the reference of the voice.

    Args:
        take: the id of a take from speak or design.
        name: a name for the voice.
    """
    answer = await studio("POST", f"/studio/takes/{quote(take, safe='')}/voice", json={"name": name})
    return _card(answer.json())


async def clone(
    studio: StudioClient, name: str, recording: str, consent: str, transcript: str = "", language: str = "auto"
) -> StoredVoice:
    """Clone a voice from a recording.

    The speaker of the recording must have agreed.

    Args:
        name: a name for the voice.
        recording: the file in base64: WAV, MP3, M4A, FLAC, Ogg, WebM or other audio; 3 to 30 seconds of one speaker.
        consent: who agreed, and when; stored with the voice.
        transcript: the exact text of the recording; without it the clone is less accurate.
        language: the language of the recording, or auto.
    """
    try:
        data = decode_base64(recording)
    except ValueError:
        raise ActionRefused("recording must be a file in base64.", "invalid_config", "recording") from None
    form = {"name": name, "consent": consent, "ref_text": transcript, "language": language}
    fields = {field: value for field, value in form.items() if value}
    answer = await studio("POST", "/v1/audio/voices", data=fields, files={"audio_sample": ("recording", data)})
    return _card(answer.json())


async def list_voices(studio: StudioClient, search: str = "") -> dict[str, Any]:
    """List the available voices: the speakers of the loaded models, and the stored voices.

    Args:
        search: words in a stored voice's name, description, tags or transcript.
    """
    stored = (await studio("GET", "/v1/audio/voices", params={"search": search} if search else None)).json()["data"]
    cards = (await studio("GET", "/v1/models")).json()["data"]
    speakers = sorted({speaker for card in cards for speaker in card["speakers"]})
    return {"speakers": speakers, "stored": [_card(voice) for voice in stored]}


async def delete_voice(studio: StudioClient, voice: str) -> dict[str, Any]:
    """Delete a stored voice.

    The voice stays in the studio's recycle bin for a day and can be restored on the page.

    Args:
        voice: the name or id of a stored voice.
    """
    gone: dict[str, Any] = (await studio("DELETE", f"/studio/voices/{quote(voice, safe='')}")).json()
    return {"id": gone["id"], "name": gone["name"], "deleted": True}


def _card(voice: dict[str, Any]) -> StoredVoice:
    return StoredVoice(
        id=voice["id"],
        name=voice["name"],
        seconds=voice["seconds"],
        transcript=voice["transcript"],
        language=voice["language"],
        description=voice["description"],
        provenance=voice["provenance"],
        advice=voice.get("advice", []),
    )
