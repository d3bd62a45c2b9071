"""HTTP routes ``/v1/audio/voices`` of the voice library, for OpenAI and vLLM-Omni clients."""

from __future__ import annotations

import io
import json
import wave
import zipfile
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from runtime.errors import (
    InvalidConfig,
    NoRecording,
    StorageFailed,
    UnknownRoute,
    VoiceFileInvalid,
    VoiceNameLooksAlike,
    VoiceNameOfSpeaker,
    VoiceNotFound,
    VoiceNotYours,
)
from runtime.request import SAMPLE_RATE
from runtime.server.engine_host import EngineHost
from runtime.server.openapi.operations import FORM, LIBRARY, describe_operation
from runtime.server.voices.forms import VoiceForm, check_form_recording, parse_changes, read_form, voice_from_form
from runtime.server.voices.responses import (
    CreatedVoice,
    DeletedVoice,
    Recording,
    StoredVoice,
    VoiceCheck,
    VoiceEdit,
    VoiceList,
    VoiceUpload,
)
from runtime.server.voices.voice_library import VoiceCard, VoiceLibrary
from runtime.server.voices.voice_resolver import is_speaker
from runtime.server.wire import Reply, check_choice, code_of, decode
from runtime.settings import OBJECTS, VOICES_AS, Limits
from runtime.shared.file_names import disposition, file_name
from runtime.shared.names import is_blend
from runtime.shared.port.errors import trailing_slash_error
from runtime.shared.port.limits import whole_body
from runtime.shared.text.confusables import find_confusable
from runtime.voices.checks import Advice
from runtime.voices.listing import VoiceFileProblem, file_name_of
from runtime.voices.owner_libraries import OwnerLibrary
from runtime.voices.recording_check import RecordingCheck
from runtime.voices.voice import VoiceChanges, to_pcm

GET = ["GET", "HEAD"]
VOICES = "/v1/audio/voices"
OPEN_WEBUI_PATH = "/v1/open-webui"  # Path for Open WebUI, which expects another format of the voice list.

Search = Annotated[str, Query(description="words that a voice must hold")]
ItemType = Annotated[str, Query(description="names or objects: type of the items of voices")]
FileFormat = Annotated[str, Query(description="voicebox: a profile of that program")]

# Errors that all routes with the name of a voice can return.
VOICE_ERRORS = frozenset({VoiceNotFound, VoiceFileInvalid, StorageFailed})

SHADOWED = "A speaker has its name; rename it, or request it as voice:NAME."


def voices_router(host: EngineHost) -> APIRouter:
    """Create the router with the HTTP routes of the voice library.

    Disk access and decoding run on the host's worker threads.
    """
    router = APIRouter()

    def speakers() -> list[str]:
        return list(host.speakers())

    def find_voice(request: Request, name_or_id: str) -> tuple[OwnerLibrary, VoiceCard]:
        if not name_or_id:
            raise trailing_slash_error() if request.url.path.endswith("/") else UnknownRoute(hint="")
        library = host.owner_library(request.headers)
        card = library.find(name_or_id)
        if card is None:
            raise VoiceNotFound
        return library, card

    def find_changeable_voice(request: Request, name_or_id: str) -> tuple[OwnerLibrary, VoiceCard]:
        """Return the stored voice and its library, or raise an error for a speaker."""
        try:
            return find_voice(request, name_or_id)
        except VoiceNotFound:
            raise (VoiceNotYours if is_speaker(name_or_id, speakers()) else VoiceNotFound) from None

    @router.api_route(OPEN_WEBUI_PATH + "/audio/voices", methods=GET)
    @describe_operation(response=VoiceList)
    async def voices_of_open_webui(request: Request) -> Reply:
        """List all voices in the format of Open WebUI's voice menu."""
        return await voices(request, of=OBJECTS)

    @router.api_route(VOICES, methods=GET)
    @describe_operation(
        response=VoiceList,
        refusals=frozenset({InvalidConfig}),
    )
    async def voices(request: Request, search: Search = "", of: ItemType = "") -> Reply:
        """List the speakers, and the stored voices that contain all words of ``search``."""
        of = of or host.settings.server.voices_as
        check_choice(of, "of", VOICES_AS)
        library = host.owner_library(request.headers)
        cards = await host.run_in_worker(library.search, search[:256]) if search.strip() else library.cards()
        found = describe_voices(library, cards, speakers())
        return {**found, "voices": voice_objects(speakers(), cards)} if of == OBJECTS else found

    @router.post(VOICES)
    @describe_operation(body=VoiceUpload, body_media=FORM, response=CreatedVoice, refusals=LIBRARY)
    async def create(request: Request) -> Reply:
        """Store a new voice from a recording or from an exported voice file."""
        form, library = await read_form(request, host.settings.limits), host.owner_library(request.headers)
        card = await host.run_in_worker(store_voice, library, form, host.settings.limits, speakers())
        host.wake_prompts()
        return describe_new_voice(library, card)

    @router.post(VOICES + "/check")
    @describe_operation(body=Recording, body_media=FORM, response=VoiceCheck, refusals=LIBRARY)
    async def check(request: Request) -> Reply:
        """Check an uploaded recording and return advice, without storing the recording."""
        form = await read_form(request, host.settings.limits)
        return describe_check(await host.run_in_worker(check_form_recording, form, host.settings.limits))

    # The parameter `name` is already URL-decoded and may contain a slash.
    @router.api_route(VOICES + "/{name:path}/file", methods=GET)
    @describe_operation(
        binary_types=("application/octet-stream", "application/zip"),
        refusals=VOICE_ERRORS | {NoRecording, InvalidConfig},
    )
    async def voice_file(request: Request, name: str, format: FileFormat = "") -> Response:
        """Export a stored voice as a voice file, or as a profile for the program voicebox."""
        library, card = find_voice(request, name)
        if format:
            check_choice(format, "format", ("voicebox",))
            media_type, suffix, data = (
                "application/zip",
                "zip",
                await host.run_in_worker(export_voicebox_profile, library, card),
            )
        else:
            media_type, suffix = "application/octet-stream", "voice"
            data = await host.run_in_worker(library.export, card.id)
        headers = {"Content-Disposition": disposition(file_name(card.name, suffix, instead=card.id))}
        return Response(data, media_type=media_type, headers=headers)

    @router.api_route(VOICES + "/{name:path}/audio", methods=GET)
    @describe_operation(binary_types=("audio/wav",), refusals=VOICE_ERRORS | {NoRecording})
    async def voice_audio(request: Request, name: str) -> Response:
        """Return the reference audio of a stored voice as a WAV file."""
        library, card = find_voice(request, name)
        return Response(await host.run_in_worker(export_wav, library, card.id), media_type="audio/wav")

    @router.api_route(VOICES + "/{name:path}", methods=GET)
    @describe_operation(response=StoredVoice, refusals=VOICE_ERRORS)
    async def voice(request: Request, name: str) -> Reply:
        """Return the metadata of the stored voice with this name or id."""
        return describe_voice(*find_voice(request, name))

    @router.patch(VOICES + "/{name:path}")
    @describe_operation(body=VoiceEdit, response=StoredVoice, refusals=LIBRARY | {NoRecording})
    async def change(request: Request, name: str) -> Reply:
        """Change the metadata of a stored voice, such as its name or transcript."""
        edit = await read_edit(request, host.settings.limits)
        library, card = find_changeable_voice(request, name)
        if edit.name is not None and edit.name != card.name:
            check_voice_name(edit.name, speakers())
        changed = await host.run_in_worker(library.change, card.id, edit)
        if edit.transcript is not None:
            host.wake_prompts()
        return describe_voice(library, changed)

    @router.delete(VOICES + "/{name:path}")
    @describe_operation(response=DeletedVoice, refusals=LIBRARY)
    async def delete(request: Request, name: str) -> JSONResponse:
        """Delete a stored voice permanently."""
        library, card = find_changeable_voice(request, name)
        await host.run_in_worker(library.delete, card.id)
        return JSONResponse(
            {"success": True, "id": card.id, "name": card.name, "object": "audio.voice.deleted", "deleted": True}
        )

    return router


def check_voice_name(name: str, speakers: list[str]) -> None:
    """Check that a new voice name neither equals nor looks like the name of a speaker.

    Names that look like a blend are refused. The names "." and ".." are also refused, because clients remove them from
    URLs.

    Raises:
        InvalidConfig, VoiceNameOfSpeaker, VoiceNameLooksAlike: The name is refused.
    """
    if name in {".", ".."}:
        raise InvalidConfig(where="name", why="an address cannot hold it", param="name")
    if is_blend(name):
        raise InvalidConfig(where="name", why="it means a blend of two voices", param="name")
    if is_speaker(name, speakers):
        raise VoiceNameOfSpeaker(param="name")
    if (other := find_confusable(name, speakers)) is not None:
        raise VoiceNameLooksAlike(other=other, param="name")


def store_voice(library: OwnerLibrary, form: VoiceForm, limits: Limits, speakers: list[str]) -> VoiceCard:
    """Store the voice of an upload form in the library and return its card.

    Thread: a worker.
    """
    voice = voice_from_form(form, limits)
    check_voice_name(voice.name, speakers)
    old = library.own.find(voice.name) if form.replaces else None
    if old is not None:
        return library.register_voice(voice, replace_id=old.id)
    return library.register_voice(voice) if form.voice_file is None else library.import_(voice)


def export_wav(library: VoiceLibrary, voice_id: str) -> bytes:
    """Return the reference audio of a stored voice as a WAV file.

    Raises:
        NoRecording: The voice has a prompt but no reference audio.

    Thread: a worker.
    """
    samples = library.reference(voice_id).samples
    if not len(samples):
        raise NoRecording
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(SAMPLE_RATE)
        sound.writeframes(to_pcm(samples).tobytes())
    return file.getvalue()


def export_voicebox_profile(library: VoiceLibrary, card: VoiceCard) -> bytes:
    """Return a stored voice as a ZIP file that the program voicebox can import.

    Raises:
        NoRecording: The voice has only a prompt.

    Thread: a worker.
    """
    profile = {"name": card.name, "description": card.description, "language": code_of(card.language) or "en"}
    members: dict[str, str | bytes] = {
        "manifest.json": json.dumps({"version": "1.0", "profile": profile, "has_avatar": False}),
        "samples.json": json.dumps({f"{card.id}.wav": card.transcript or ""}),
        f"samples/{card.id}.wav": export_wav(library, card.id),
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


async def read_edit(request: Request, limits: Limits) -> VoiceChanges:
    """Read and parse a JSON body with changes to a stored voice.

    Raises:
        InvalidMessage, InvalidConfig, MessageTooLarge: The body is invalid.
    """
    body = await whole_body(request, max_bytes=limits.max_message_bytes, idle_s=limits.config_s)
    return parse_changes(decode(body.decode("utf-8", "replace")))


def describe_voices(library: OwnerLibrary, cards: tuple[VoiceCard, ...], speakers: list[str]) -> Reply:
    """Return the response that lists all voices, in the formats of vLLM-Omni and OpenAI."""
    shadowed = [file_name_of(card.id) for card in library.own.cards() if is_speaker(card.name, speakers)]
    problems = (*library.problems(), *(VoiceFileProblem(file, SHADOWED) for file in shadowed))
    return {
        "object": "list",
        "voices": [*dict.fromkeys([*speakers, *(card.name for card in cards)])],
        "uploaded_voices": [describe_uploaded_voice(card) for card in cards],
        "data": [describe_voice(library, card) for card in cards],
        "problems": [asdict(problem) for problem in problems],
    }


def voice_objects(speakers: list[str], cards: tuple[VoiceCard, ...]) -> list[Reply]:
    """Return all voices as objects with `id` and `name`."""
    names = {name: {"id": name, "name": name} for name in speakers}
    return [*names.values(), *({"id": card.id, "name": card.name} for card in cards)]


def describe_new_voice(library: OwnerLibrary, card: VoiceCard) -> Reply:
    """Return the response for a new voice, with the fields of OpenAI and vLLM-Omni."""
    return {"success": True, "voice": describe_uploaded_voice(card), **describe_voice(library, card)}


def describe_check(found: RecordingCheck) -> Reply:
    """Return the response for a checked recording: duration, levels and advice."""
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
        "advice": [asdict(fault) for fault in advice],
    }


def describe_voice(library: OwnerLibrary, card: VoiceCard) -> Reply:
    """Return the description of a stored voice in OpenAI's format, with additional fields."""
    return {
        **asdict(card),
        "tags": list(card.tags),
        "advice": list(card.advice),
        "yours": library.owns(card.id),
        "object": "audio.voice",
        "type": "audio_sample",
        "created_at": int(card.created_at),
    }


def describe_uploaded_voice(card: VoiceCard) -> Reply:
    """Return the description of a stored voice in vLLM-Omni's format."""
    reply: dict[str, Any] = {
        "name": card.name,
        "consent": card.consent,
        "created_at": int(card.created_at),
        "file_size": card.file_bytes,
        "mime_type": "audio/wav",
        "embedding_source": "audio" if card.seconds else "direct",
        "embedding_dim": None,
    }
    if card.transcript is not None:
        reply["ref_text"] = card.transcript
    if card.description is not None:
        reply["speaker_description"] = card.description
    return reply
