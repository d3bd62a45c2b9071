"""ElevenLabs' HTTP routes ``/v1/text-to-speech/{voice_id}`` and ``/v1/text-to-dialogue``."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from runtime.errors import VoiceNotFound
from runtime.server.elevenlabs.output_formats import OUTPUT_FORMATS
from runtime.server.elevenlabs.responses import TimedAudio, TimedDialogue, describe_elevenlabs
from runtime.server.elevenlabs.schema import (
    DialogueBody,
    FileBody,
    FileOptions,
    TextToSpeechBody,
    read,
    read_options,
)
from runtime.server.elevenlabs.spoken_text import JSON_LINES, SpokenText
from runtime.server.engine_host import EngineHost
from runtime.server.http.request_ids import request_id_of
from runtime.server.http.speech import read_fields
from runtime.server.openapi.operations import SPEECH
from runtime.server.wire import Reply

PATH = "/v1/text-to-speech/{voice_id}"
DIALOGUE_PATH = "/v1/text-to-dialogue"
MEDIA_TYPES = tuple(dict.fromkeys(form.media_type for form in OUTPUT_FORMATS.values()))
_TEXT_EXAMPLE = {"text": "Good morning.", "model_id": "eleven_flash_v2_5"}
_DIALOGUE_EXAMPLE = {
    "inputs": [{"text": "Good morning.", "voice_id": "clara"}, {"text": "And to you.", "voice_id": "angus"}]
}


def add_routes(app: FastAPI, host: EngineHost) -> None:
    """Register ElevenLabs' HTTP routes for the speech of a text or a dialogue."""
    app.include_router(_router(host, PATH, TextToSpeechBody, TimedAudio, example=_TEXT_EXAMPLE))
    app.include_router(_router(host, DIALOGUE_PATH, DialogueBody, TimedDialogue, example=_DIALOGUE_EXAMPLE))


def _router(
    host: EngineHost, path: str, kind: type[FileBody], timed_response: type[TimedAudio], *, example: Reply
) -> APIRouter:
    """Return the four routes of a kind of speech.

    Args:
        kind: Type of the request body.
        timed_response: Type of the JSON response with times.
        example: Example of a request body.
    """
    router = APIRouter(prefix=path)
    taken: dict[str, Any] = {
        "body": kind,
        "example": example,
        "query": FileOptions,
        "refusals": SPEECH | {VoiceNotFound},
    }

    async def read_body(request: Request) -> SpokenText:
        body = read(kind, await read_fields(request, host), host.settings.limits)
        form = read_options(FileOptions, request.query_params).format
        library, voice_id = host.owner_library(request.headers), request.path_params.get("voice_id", "")
        return SpokenText(host, body, library, request_id_of(request), form=form, voice_id=voice_id)

    @router.post("", response_model=None)
    @describe_elevenlabs(**taken, binary_types=MEDIA_TYPES)
    async def convert(request: Request) -> Response:
        """Speak a text or a dialogue and return an audio file.

        A WAV file is sent only when it is complete, because its header contains the length.
        """
        speech = await read_body(request)
        return speech.reply(speech.pieces(whole=speech.format.has_head), speech.format.media_type)

    @router.post("/stream", response_model=None)
    @describe_elevenlabs(**taken, binary_types=MEDIA_TYPES)
    async def stream(request: Request) -> Response:
        """Speak a text or a dialogue and stream the audio while it is generated."""
        speech = await read_body(request)
        return speech.reply(speech.pieces(), speech.format.media_type)

    @router.post("/with-timestamps", response_model=None)
    @describe_elevenlabs(**taken, response=timed_response)
    async def with_timestamps(request: Request) -> Response:
        """Speak a text or a dialogue and return the complete audio with times.

        The times are those of the characters and, in a dialogue, of the turns.
        """
        speech = await read_body(request)
        return speech.reply(speech.timed_whole(), "application/json")

    @router.post("/stream/with-timestamps", response_model=None)
    @describe_elevenlabs(**taken, binary_types=(JSON_LINES,))
    async def stream_with_timestamps(request: Request) -> Response:
        """Speak a text or a dialogue and stream JSON lines with audio and times."""
        speech = await read_body(request)
        return speech.reply(speech.timed_lines(), JSON_LINES)

    return router
