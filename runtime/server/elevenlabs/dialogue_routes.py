"""ElevenLabs' HTTP routes ``/v1/text-to-dialogue`` for dialogues with several voices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from runtime.errors import VoiceNotFound
from runtime.request import SpeechRequest
from runtime.server.elevenlabs.output_formats import OUTPUT_FORMATS
from runtime.server.elevenlabs.responses import ElevenLabsError, TimedDialogue, VoiceSegment
from runtime.server.elevenlabs.schema import DialogueBody, FileOptions, read, read_file_options
from runtime.server.elevenlabs.spoken_text import JSON_LINES, SpokenText
from runtime.server.engine_host import Host
from runtime.server.http.request_ids import id_of
from runtime.server.http.speech import read_fields
from runtime.server.openapi.operations import SPEECH, documented
from runtime.server.session.dialogue import check_turn_text, check_turns, errors_of_turn
from runtime.server.wire import Reply
from runtime.shared.word_times import TimedWords

PATH = "/v1/text-to-dialogue"
_TURN_FIELDS = {"voice_id": "voice_id", "text": "text"}

_DOCUMENTED: dict[str, Any] = {
    "body": DialogueBody,
    "example": {
        "inputs": [{"text": "Good morning.", "voice_id": "clara"}, {"text": "And to you.", "voice_id": "angus"}]
    },
    "query": FileOptions,
    "refusals": SPEECH | {VoiceNotFound},
    "refused_as": ElevenLabsError,
}
_MEDIA_TYPES = tuple(dict.fromkeys(form.media_type for form in OUTPUT_FORMATS.values()))


def add_routes(app: FastAPI, host: Host) -> None:
    """Register ElevenLabs' HTTP routes for dialogues."""
    router = APIRouter(prefix=PATH)

    async def read_dialogue(request: Request) -> _Dialogue:
        body = read(DialogueBody, await read_fields(request, host), host.settings.limits)
        form = read_file_options(request.query_params).format
        return _Dialogue(host, body, host.owner_library(request.headers), id_of(request), form)

    @router.post("", response_model=None)
    @documented(**_DOCUMENTED, sound=_MEDIA_TYPES)
    async def convert_dialogue(request: Request) -> Response:
        """Speak a dialogue and return an audio file.

        A WAV file is sent only when it is complete, because its header contains the length.
        """
        dialogue = await read_dialogue(request)
        return dialogue.reply(dialogue.pieces(whole=dialogue.format.has_head), dialogue.format.media_type)

    @router.post("/stream", response_model=None)
    @documented(**_DOCUMENTED, sound=_MEDIA_TYPES)
    async def stream_dialogue(request: Request) -> Response:
        """Speak a dialogue and stream the audio while it is generated."""
        dialogue = await read_dialogue(request)
        return dialogue.reply(dialogue.pieces(), dialogue.format.media_type)

    @router.post("/with-timestamps", response_model=None)
    @documented(**_DOCUMENTED, answer=TimedDialogue)
    async def dialogue_with_timestamps(request: Request) -> Response:
        """Speak a dialogue and return the audio with the times of characters and turns."""
        dialogue = await read_dialogue(request)
        return dialogue.reply(dialogue.timed_whole(), "application/json")

    @router.post("/stream/with-timestamps", response_model=None)
    @documented(**_DOCUMENTED, sound=(JSON_LINES,))
    async def stream_dialogue_with_timestamps(request: Request) -> Response:
        """Speak a dialogue and stream JSON lines with audio and the times of characters and turns."""
        dialogue = await read_dialogue(request)
        return dialogue.reply(dialogue.timed_lines(), JSON_LINES)

    app.include_router(router)


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
