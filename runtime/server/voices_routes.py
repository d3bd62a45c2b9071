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

from runtime.errors import MessageTooLarge, VoiceNotFound
from runtime.request import SAMPLE_RATE
from runtime.server.host import Host
from runtime.server.replies import Reply
from runtime.server.schema import decode
from runtime.server.voice_forms import VoiceForm, edit_of, examined, read_form, voice_of
from runtime.server.voice_library import VoiceCard, VoiceLibrary
from runtime.settings import Limits
from runtime.voices.checks import Advice
from runtime.voices.intake import Examination
from runtime.voices.shelves import Shelf
from runtime.voices.voice import Edit, to_pcm

GET = ["GET", "HEAD"]
VOICES = "/v1/audio/voices"

Value = TypeVar("Value")


def voices_router(host: Host) -> APIRouter:
    """Return the routes. Everything that touches the disk or decodes runs on the host's workers."""
    router = APIRouter()

    async def aside(work: Callable[..., Value], *given: object) -> Value:
        return await asyncio.get_running_loop().run_in_executor(host.decoders, work, *given)

    def known(request: Request, name_or_id: str) -> tuple[Shelf, VoiceCard]:
        shelf = host.shelf(request.headers)
        card = shelf.find(name_or_id)
        if card is None:
            raise VoiceNotFound
        return shelf, card

    @router.api_route(VOICES, methods=GET)
    async def voices(request: Request, search: str = "") -> Reply:
        """Every voice by name, or those that hold all the words of ``search``."""
        shelf = host.shelf(request.headers)
        cards = await aside(shelf.search, search[:256]) if search.strip() else shelf.cards()
        models = host.engine.cards if host.problem is None else ()
        return listed(shelf, cards, [name for model in models for name in model.speakers])

    @router.post(VOICES)
    async def create(request: Request) -> Reply:
        """Keep a voice of a recording, or one that was exported elsewhere."""
        form, shelf = await read_form(request, host.settings.limits), host.shelf(request.headers)
        card = await aside(kept, shelf, form, host.settings.limits)
        host.wake_prompts()
        return created(shelf, card)

    @router.post(VOICES + "/check")
    async def check(request: Request) -> Reply:
        """What would be said of a recording, with nothing kept."""
        form = await read_form(request, host.settings.limits)
        return checked(await aside(examined, form, host.settings.limits))

    @router.api_route(VOICES + "/{name}", methods=GET)
    async def voice(request: Request, name: str) -> Reply:
        return entry(*known(request, name))

    @router.api_route(VOICES + "/{name}/file", methods=GET)
    async def voice_file(request: Request, name: str) -> Response:
        """The portable file."""
        shelf, card = known(request, name)
        data = await aside(shelf.export, card.id)
        headers = {"Content-Disposition": f'attachment; filename="{card.id}.voice"'}
        return Response(data, media_type="application/octet-stream", headers=headers)

    @router.api_route(VOICES + "/{name}/audio", methods=GET)
    async def voice_audio(request: Request, name: str) -> Response:
        """The reference as WAV."""
        shelf, card = known(request, name)
        return Response(await aside(wav_of, shelf, card.id), media_type="audio/wav")

    @router.patch(VOICES + "/{name}")
    async def change(request: Request, name: str) -> Reply:
        """Another name, description or tags."""
        edit = await read_edit(request, host.settings.limits)
        shelf, card = known(request, name)
        return entry(shelf, await aside(shelf.change, card.id, edit))

    @router.delete(VOICES + "/{name}")
    async def delete(request: Request, name: str) -> JSONResponse:
        shelf, card = known(request, name)
        await aside(shelf.delete, card.id)
        return JSONResponse(
            {"success": True, "id": card.id, "name": card.name, "object": "audio.voice.deleted", "deleted": True}
        )

    return router


def kept(shelf: Shelf, form: VoiceForm, limits: Limits) -> VoiceCard:
    """Make the voice, and only then touch what is stored. Thread: a worker."""
    voice = voice_of(form, limits)
    old = shelf.own.find(voice.name) if form.replaces else None
    if old is not None:
        return shelf.add(voice, replace_id=old.id)
    return shelf.add(voice) if form.voice_file is None else shelf.import_(voice)


def wav_of(library: VoiceLibrary, voice_id: str) -> bytes:
    """The reference as a WAV file. Thread: a worker."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(SAMPLE_RATE)
        sound.writeframes(to_pcm(library.reference(voice_id).samples).tobytes())
    return file.getvalue()


async def read_edit(request: Request, limits: Limits) -> Edit:
    """What a small JSON body changes.

    Raises:
        InvalidMessage, InvalidConfig, MessageTooLarge: it changes nothing that there is.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limits.max_message_bytes:
            raise MessageTooLarge(what="The body", size=f"over {len(body) - 1}", limit=limits.max_message_bytes)
    return edit_of(decode(body.decode("utf-8", "replace")))


def listed(shelf: Shelf, cards: tuple[VoiceCard, ...], speakers: list[str]) -> Reply:
    """vLLM-Omni's two lists, and ours."""
    return {
        "object": "list",
        "voices": [*dict.fromkeys([*speakers, *(card.name for card in cards)])],
        "uploaded_voices": [uploaded(card) for card in cards],
        "data": [entry(shelf, card) for card in cards],
    }


def created(shelf: Shelf, card: VoiceCard) -> Reply:
    """OpenAI's voice and vLLM-Omni's in one object."""
    return {"success": True, "voice": uploaded(card), **entry(shelf, card)}


def checked(found: Examination) -> Reply:
    """A recording's faults as they would be kept with the voice; a transcript for which it would not be kept is one."""
    advice = list(found.advice)
    if found.mismatch is not None:
        advice.append(Advice(found.mismatch.code, str(found.mismatch)))
    return {
        "object": "audio.voice.check",
        "usable": found.mismatch is None,
        "seconds": round(found.seconds, 3),
        "speech_s": round(found.speech_s, 3),
        "trim": {"start_s": round(found.start_s, 3), "end_s": round(found.end_s, 3)},
        "levels": {name: None if value is None else round(value, 4) for name, value in asdict(found.levels).items()},
        "advice": [asdict(one) for one in advice],
    }


def entry(shelf: Shelf, card: VoiceCard) -> Reply:
    """A voice as OpenAI's clients read it, with all that we know of it."""
    return {
        **asdict(card),
        "tags": list(card.tags),
        "advice": list(card.advice),
        "yours": shelf.owns(card.id),
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
