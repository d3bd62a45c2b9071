"""ElevenLabs' HTTP routes ``/v1/text-to-speech/{voice_id}`` and ``/v1/text-to-dialogue``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from runtime.errors import VoiceNotFound
from runtime.request import SpeechRequest
from runtime.server.elevenlabs.output_formats import OUTPUT_FORMATS
from runtime.server.elevenlabs.responses import TimedAudio, TimedDialogue, VoiceSegment, describe_elevenlabs
from runtime.server.elevenlabs.schema import (
    DialogueBody,
    FileBody,
    FileOptions,
    TextToSpeechBody,
    read,
    read_file_options,
)
from runtime.server.elevenlabs.spoken_text import JSON_LINES, SpokenText
from runtime.server.engine_host import EngineHost
from runtime.server.http.request_ids import request_id_of
from runtime.server.http.speech import read_fields
from runtime.server.openapi.operations import SPEECH
from runtime.server.session.dialogue import check_turn_text, check_turns, errors_of_turn
from runtime.server.wire import Reply
from runtime.shared.text.word_times import TimedWords

PATH = "/v1/text-to-speech/{voice_id}"
DIALOGUE_PATH = "/v1/text-to-dialogue"
MEDIA_TYPES = tuple(dict.fromkeys(form.media_type for form in OUTPUT_FORMATS.values()))
_TURN_FIELDS = {"voice_id": "voice_id", "text": "text"}
_TEXT_EXAMPLE = {"text": "Good morning.", "model_id": "eleven_flash_v2_5"}
_DIALOGUE_EXAMPLE = {
    "inputs": [{"text": "Good morning.", "voice_id": "clara"}, {"text": "And to you.", "voice_id": "angus"}]
}

Reader = Callable[[Request], Awaitable[SpokenText[Any]]]


def add_routes(app: FastAPI, host: EngineHost) -> None:
    """Register ElevenLabs' HTTP routes for the speech of a text or a dialogue."""

    async def given(request: Request, kind: type[FileBody]) -> tuple[Any, ...]:
        body = read(kind, await read_fields(request, host), host.settings.limits)
        form = read_file_options(request.query_params).format
        return host, body, host.owner_library(request.headers), request_id_of(request), form

    async def text_of(request: Request) -> SpokenText[Any]:
        return _OneText(*await given(request, TextToSpeechBody), request.path_params["voice_id"])

    async def dialogue_of(request: Request) -> SpokenText[Any]:
        return _Dialogue(*await given(request, DialogueBody))

    app.include_router(_router(PATH, text_of, TimedAudio, body=TextToSpeechBody, example=_TEXT_EXAMPLE))
    app.include_router(_router(DIALOGUE_PATH, dialogue_of, TimedDialogue, body=DialogueBody, example=_DIALOGUE_EXAMPLE))


def _router(path: str, read_body: Reader, timed_response: type[TimedAudio], **taken: Any) -> APIRouter:
    """Return the four routes of a kind of speech.

    Args:
        read_body: Function that reads a request.
        timed_response: Type of the JSON response with times.
        taken: Description of the request for `describe_elevenlabs`.
    """
    router = APIRouter(prefix=path)
    taken |= {"query": FileOptions, "refusals": SPEECH | {VoiceNotFound}}

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


class _OneText(SpokenText[TextToSpeechBody]):
    def __init__(self, *common_arguments: Any) -> None:
        *shared_with_dialogues, voice_id = common_arguments
        super().__init__(*shared_with_dialogues)
        self._voice_id: str = voice_id

    async def _requests(self) -> list[SpeechRequest]:
        return [await self._request(self._body.text, self._voice_id)]


class _Dialogue(SpokenText[DialogueBody]):
    @property
    def turn_pause_ms(self) -> float:
        return self._body.turn_pause_ms

    async def _requests(self) -> list[SpeechRequest]:
        inputs = self._body.inputs
        check_turns(inputs, self._host.settings.limits)
        requests = []
        for index, turn in enumerate(inputs):
            with errors_of_turn(index, _TURN_FIELDS):
                requests.append(await self._request(turn.text, turn.voice_id))
                check_turn_text(requests[-1].text)
        return requests

    def _more(self, timed: Mapping[int, TimedWords]) -> Reply:
        return {"voice_segments": self._segments(timed)}

    def _segments(self, timed: Mapping[int, TimedWords]) -> list[VoiceSegment]:
        segments: list[VoiceSegment] = []
        first = 0
        for turn, times in timed.items():
            end = first + sum(map(len, times.spans))
            segments.append(
                {
                    "voice_id": self._body.inputs[turn].voice_id,
                    "start_time_seconds": round(times.start[0] / self._body.speed, 3),
                    "end_time_seconds": round(times.end[-1] / self._body.speed, 3),
                    "character_start_index": first,
                    "character_end_index": end,
                    "dialogue_input_index": turn,
                }
            )
            first = end
        return segments
