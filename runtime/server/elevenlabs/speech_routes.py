"""ElevenLabs' HTTP routes ``/v1/text-to-speech/{voice_id}``."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from runtime.errors import VoiceNotFound
from runtime.request import SpeechRequest
from runtime.server.elevenlabs.output_formats import OUTPUT_FORMATS
from runtime.server.elevenlabs.responses import ElevenLabsError, TimedAudio
from runtime.server.elevenlabs.schema import FileOptions, TextToSpeechBody, read, read_file_options
from runtime.server.elevenlabs.spoken_text import JSON_LINES, SpokenText
from runtime.server.engine_host import Host
from runtime.server.http.request_ids import id_of
from runtime.server.http.speech import read_fields
from runtime.server.openapi.operations import SPEECH, documented

PATH = "/v1/text-to-speech/{voice_id}"
MEDIA_TYPES = tuple(dict.fromkeys(form.media_type for form in OUTPUT_FORMATS.values()))

_TAKEN: dict[str, Any] = {
    "body": TextToSpeechBody,
    "example": {"text": "Good morning.", "model_id": "eleven_flash_v2_5"},
    "query": FileOptions,
    "refusals": SPEECH | {VoiceNotFound},
    "refused_as": ElevenLabsError,
}


def add_routes(app: FastAPI, host: Host) -> None:
    """Register ElevenLabs' HTTP routes for speech."""
    router = APIRouter(prefix=PATH)

    async def spoken(request: Request, voice_id: str) -> _OneText:
        body = read(TextToSpeechBody, await read_fields(request, host), host.settings.limits)
        form = read_file_options(request.query_params).format
        return _OneText(host, body, host.owner_library(request.headers), id_of(request), form, voice_id)

    @router.post("", response_model=None)
    @documented(**_TAKEN, sound=MEDIA_TYPES)
    async def convert(request: Request, voice_id: str) -> Response:
        """Speak one text and return an audio file.

        A WAV file is sent only when it is complete, because its header contains the length.
        """
        text = await spoken(request, voice_id)
        return text.reply(text.pieces(whole=text.format.has_head), text.format.media_type)

    @router.post("/stream", response_model=None)
    @documented(**_TAKEN, sound=MEDIA_TYPES)
    async def stream(request: Request, voice_id: str) -> Response:
        """Speak one text and stream the audio while it is generated."""
        text = await spoken(request, voice_id)
        return text.reply(text.pieces(), text.format.media_type)

    @router.post("/with-timestamps", response_model=None)
    @documented(**_TAKEN, answer=TimedAudio)
    async def with_timestamps(request: Request, voice_id: str) -> Response:
        """Speak one text and return the complete audio with the times of its characters."""
        text = await spoken(request, voice_id)
        return text.reply(text.timed_whole(), "application/json")

    @router.post("/stream/with-timestamps", response_model=None)
    @documented(**_TAKEN, sound=(JSON_LINES,))
    async def stream_with_timestamps(request: Request, voice_id: str) -> Response:
        """Speak one text and stream JSON lines with audio and the times of its characters."""
        text = await spoken(request, voice_id)
        return text.reply(text.timed_lines(), JSON_LINES)

    app.include_router(router)


class _OneText(SpokenText[TextToSpeechBody]):
    def __init__(self, *shared: Any) -> None:
        *shared_with_dialogues, voice_id = shared
        super().__init__(*shared_with_dialogues)
        self._voice_id: str = voice_id

    async def _requests(self) -> list[SpeechRequest]:
        return [await self._request(self._body.text, self._voice_id)]
