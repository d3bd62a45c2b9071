"""`/v1/audio/voices`: the voice library over HTTP, in the shapes of OpenAI's and vLLM-Omni's clients at once."""

from __future__ import annotations

import asyncio
import io
import wave
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from runtime.errors import InvalidConfig, MessageTooLarge, VoiceNotFound
from runtime.request import SAMPLE_RATE
from runtime.server.host import Host
from runtime.server.replies import Reply
from runtime.server.schema import decode
from runtime.server.voice_forms import VoiceForm, read_form, voice_of
from runtime.server.voice_library import VoiceCard
from runtime.settings import Limits
from runtime.voices.library import Library
from runtime.voices.voice import to_pcm

GET = ["GET", "HEAD"]
VOICES = "/v1/audio/voices"

Value = TypeVar("Value")


def voices_router(host: Host) -> APIRouter:
    """Return the routes. Everything that touches the disk or decodes runs on the host's workers."""
    router = APIRouter()
    library = host.library

    async def aside(work: Callable[..., Value], *given: object) -> Value:
        return await asyncio.get_running_loop().run_in_executor(host.decoders, work, *given)

    def known(name_or_id: str) -> VoiceCard:
        card = library.find(name_or_id)
        if card is None:
            raise VoiceNotFound
        return card

    @router.api_route(VOICES, methods=GET)
    async def voices(search: str = "") -> Reply:
        """Every voice by name, or those that hold all the words of ``search``."""
        cards = await aside(library.search, search[:256]) if search.strip() else library.cards()
        models = host.engine.cards if host.problem is None else ()
        return listed(cards, [name for model in models for name in model.speakers])

    @router.post(VOICES)
    async def create(request: Request) -> Reply:
        """Keep a voice of a recording, or one that was exported elsewhere."""
        form = await read_form(request, host.settings.limits)
        card = await aside(kept, library, form, host.settings.limits)
        host.wake_prompts()
        return created(card)

    @router.api_route(VOICES + "/{name}", methods=GET)
    async def voice(name: str) -> Reply:
        return entry(known(name))

    @router.api_route(VOICES + "/{name}/file", methods=GET)
    async def voice_file(name: str) -> Response:
        """The portable file."""
        card = known(name)
        data = await aside(library.export, card.id)
        headers = {"Content-Disposition": f'attachment; filename="{card.id}.voice"'}
        return Response(data, media_type="application/octet-stream", headers=headers)

    @router.api_route(VOICES + "/{name}/audio", methods=GET)
    async def voice_audio(name: str) -> Response:
        """The reference as WAV."""
        return Response(await aside(wav_of, library, known(name).id), media_type="audio/wav")

    @router.patch(VOICES + "/{name}")
    async def rename(name: str, request: Request) -> Reply:
        new_name = await read_name(request, host.settings.limits)
        return entry(await aside(library.rename, known(name).id, new_name))

    @router.delete(VOICES + "/{name}")
    async def delete(name: str) -> JSONResponse:
        card = known(name)
        await aside(library.delete, card.id)
        return JSONResponse(
            {"success": True, "id": card.id, "name": card.name, "object": "audio.voice.deleted", "deleted": True}
        )

    return router


def kept(library: Library, form: VoiceForm, limits: Limits) -> VoiceCard:
    """Make the voice, and only then touch what is stored. Thread: a worker."""
    voice = voice_of(form, limits)
    old = library.find(voice.name) if form.replaces else None
    if old is not None:
        return library.add(voice, replace_id=old.id)
    return library.add(voice) if form.voice_file is None else library.import_(voice)


def wav_of(library: Library, voice_id: str) -> bytes:
    """The reference as a WAV file. Thread: a worker."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(SAMPLE_RATE)
        sound.writeframes(to_pcm(library.reference(voice_id).samples).tobytes())
    return file.getvalue()


async def read_name(request: Request, limits: Limits) -> str:
    """The ``name`` of a small JSON body.

    Raises:
        InvalidMessage, InvalidConfig, MessageTooLarge: there is none.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limits.max_message_bytes:
            raise MessageTooLarge(what="The body", size=f"over {len(body) - 1}", limit=limits.max_message_bytes)
    name = decode(body.decode("utf-8", "replace")).get("name")
    if not isinstance(name, str):
        raise InvalidConfig(where="name", why="it must be text", param="name")
    return name


def listed(cards: tuple[VoiceCard, ...], speakers: list[str]) -> Reply:
    """vLLM-Omni's two lists, and ours."""
    return {
        "object": "list",
        "voices": [*dict.fromkeys([*speakers, *(card.name for card in cards)])],
        "uploaded_voices": [uploaded(card) for card in cards],
        "data": [entry(card) for card in cards],
    }


def created(card: VoiceCard) -> Reply:
    """OpenAI's voice and vLLM-Omni's in one object."""
    return {"success": True, "voice": uploaded(card), **entry(card)}


def entry(card: VoiceCard) -> Reply:
    """A voice as OpenAI's clients read it, with all that we know of it."""
    return {
        **asdict(card),
        "advice": list(card.advice),
        "object": "audio.voice",
        "type": "audio_sample",
        "created_at": int(card.created_at),
    }


def uploaded(card: VoiceCard) -> Reply:
    """A voice as vLLM-Omni's clients read it."""
    reply: dict[str, Any] = {
        "name": card.name,
        "consent": card.consent,
        "created_at": int(card.created_at),
        "file_size": card.file_bytes,
        "mime_type": "audio/wav",
        "embedding_source": "audio",
        "embedding_dim": None,
    }
    if card.transcript is not None:
        reply["ref_text"] = card.transcript
    if card.description is not None:
        reply["speaker_description"] = card.description
    return reply
