"""ElevenLabs' ``POST /v1/text-to-speech/{voice_id}``: one text, as audio or with character times."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from runtime.errors import VoiceNotFound
from runtime.request import AudioChunk, SpeechRequest
from runtime.server.elevenlabs import alignment, messages
from runtime.server.elevenlabs.output_formats import OUTPUT_FORMATS, OutputFormat
from runtime.server.elevenlabs.responses import ElevenLabsError, TimedAudio
from runtime.server.elevenlabs.schema import (
    FileOptions,
    TextToSpeechBody,
    read,
    read_file_options,
    resolve_voice,
    synthesis_options,
)
from runtime.server.engine_host import Host
from runtime.server.http.request_ids import id_of
from runtime.server.http.speech import HttpSpeech, read_fields
from runtime.server.openapi.operations import SPEECH, documented
from runtime.server.wire import BYTES_PER_SAMPLE, Reply
from runtime.shared.inline_tags import ReadText
from runtime.shared.spelling import spelled
from runtime.shared.word_times import TimedWords, WordTimes

PATH = "/v1/text-to-speech/{voice_id}"
JSON_LINES = "application/x-ndjson"  # ElevenLabs sends application/json, which readers would take for a single object.
MEDIA_TYPES = tuple(dict.fromkeys(form.media_type for form in OUTPUT_FORMATS.values()))

_TAKEN: dict[str, Any] = {
    "body": TextToSpeechBody,
    "example": {"text": "Good morning.", "model_id": "eleven_flash_v2_5"},
    "query": FileOptions,
    "refusals": SPEECH | {VoiceNotFound},
    "refused_as": ElevenLabsError,
}


def add_routes(app: FastAPI, host: Host) -> None:
    """Register the routes."""
    router = APIRouter(prefix=PATH)

    async def spoken(request: Request, voice_id: str) -> _SpokenText:
        body = read(TextToSpeechBody, await read_fields(request, host), host.settings.limits)
        form = read_file_options(request.query_params).format
        return _SpokenText(host, body, host.owner_library(request.headers), id_of(request), voice_id, form)

    @router.post("", response_model=None)
    @documented(**_TAKEN, sound=MEDIA_TYPES)
    async def convert(request: Request, voice_id: str) -> Response:
        """Speak one text; a file with a length in its head is sent once it is whole."""
        text = await spoken(request, voice_id)
        return text.reply(text.pieces(whole=text.format.has_head), text.format.media_type)

    @router.post("/stream", response_model=None)
    @documented(**_TAKEN, sound=MEDIA_TYPES)
    async def stream(request: Request, voice_id: str) -> Response:
        """Speak one text, as it is made."""
        text = await spoken(request, voice_id)
        return text.reply(text.pieces(), text.format.media_type)

    @router.post("/with-timestamps", response_model=None)
    @documented(**_TAKEN, answer=TimedAudio)
    async def with_timestamps(request: Request, voice_id: str) -> Response:
        """Speak one text, whole, and say when its characters are spoken."""
        text = await spoken(request, voice_id)
        return text.reply(text.timed_whole(), "application/json")

    @router.post("/stream/with-timestamps", response_model=None)
    @documented(**_TAKEN, sound=(JSON_LINES,))
    async def stream_with_timestamps(request: Request, voice_id: str) -> Response:
        """Speak one text with character times, one line of JSON for each piece."""
        text = await spoken(request, voice_id)
        return text.reply(text.timed_lines(), JSON_LINES)

    app.include_router(router)


class _SpokenText(HttpSpeech[TextToSpeechBody]):
    dialect = "elevenlabs"
    text_field = "text"

    def __init__(self, *given: Any) -> None:
        *shared, voice_id, form = given
        super().__init__(*shared)
        self._voice_id: str = voice_id
        self.format: OutputFormat = form
        self._read = ""  # The text without tags.

    @property
    def sample_rate(self) -> int:
        return self.format.rate

    async def pieces(self, *, whole: bool = False) -> AsyncGenerator[bytes, None]:
        """Yield the file during generation, or completely at the end.

        Raises:
            SpeechError: the request was refused, or broke.
        """
        async for data, _ in self._timed(whole=whole):
            if data:
                yield data

    async def timed_lines(self) -> AsyncGenerator[bytes, None]:
        """Yield lines with audio and the character times up to their end.

        Raises:
            SpeechError: the request was refused, or broke.
        """
        told = TimedWords()
        async for data, times in self._timed():
            told.join(times)
            if data:
                yield self._line(data, told)
                told = TimedWords()
        if told.spans:
            yield self._line(b"", told)

    async def timed_whole(self) -> AsyncGenerator[bytes, None]:
        """Yield the complete audio with all times as one piece.

        Raises:
            SpeechError: the request was refused, or broke.
        """
        sound, told = bytearray(), TimedWords()
        async for data, times in self._timed(whole=self.format.has_head):
            sound += data
            told.join(times)
        yield self._line(bytes(sound), told)

    async def _timed(self, *, whole: bool = False) -> AsyncGenerator[tuple[bytes, TimedWords], None]:
        """Yield encoded audio, which may be empty, with the words that end in it."""
        request = await self._request()
        writer = self.format.writer(self._body.speed, whole=whole)
        words = WordTimes()
        words.add(self._read)
        async with self._stream(request) as speech:
            async for heard in speech:
                if isinstance(heard, AudioChunk):
                    times = words.hear(len(heard.pcm) // BYTES_PER_SAMPLE)
                    yield await self._encoding(writer.add, heard.pcm), times
        yield await self._encoding(writer.finish), words.finish()

    def _line(self, data: bytes, told: TimedWords) -> bytes:
        fields: Reply = messages.timed_audio(data, alignment.of_file(told, self._body.speed))
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n"

    async def _request(self) -> SpeechRequest:
        body, cards = self._body, self._host.engine.cards
        resolved = resolve_voice(self._voice_id, body.model_id, body.instructions, self._resolver())
        config = synthesis_options(body, body.language_code, None, resolved, cards)
        text = await self._filtered(body.text_filter or "none", spelled(body.text), tags=body.tags)
        read = ReadText(self._host.settings.limits, brackets=body.tags)
        self._read = read.add(text) + read.finish()
        return config.request(text, resolved, await self._stored(resolved))
