"""Cartesia's HTTP routes ``/tts/bytes`` and ``/tts/sse``: speech as a file or as events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import FastAPI, Request, Response

from runtime.errors import SpeechError
from runtime.request import SAMPLE_RATE, AudioChunk, SpeechRequest
from runtime.server.cartesia import messages
from runtime.server.cartesia.responses import describe_cartesia
from runtime.server.cartesia.schema import SAMPLE_BYTES, BytesBody, FileFormat, OutputFormat, SseBody, read
from runtime.server.engine_host import EngineHost
from runtime.server.http.request_ids import request_id_of
from runtime.server.http.speech import HttpSpeech, read_fields, server_sent_event
from runtime.server.openapi.operations import SPEECH
from runtime.server.wire import Reply, without_nulls
from runtime.shared.audio.encoding import FORMATS, Encoder, wav_header
from runtime.shared.audio.pcm_formats import AudioWriter, PcmWriter
from runtime.shared.text.word_times import WordTimes

_MEDIA_TYPES = {"raw": FORMATS["pcm"].media_type, "wav": FORMATS["wav"].media_type, "mp3": FORMATS["mp3"].media_type}
_EXAMPLE = {"model_id": "sonic-3", "transcript": "Good morning.", "voice": {"mode": "id", "id": "alloy"}}
_RIFF_CODES = {"pcm_s16le": 1, "pcm_f32le": 3, "pcm_alaw": 6, "pcm_mulaw": 7}


def add_routes(app: FastAPI, host: EngineHost) -> None:
    """Register Cartesia's HTTP routes for speech."""

    @app.post("/tts/bytes", response_model=None)
    @describe_cartesia(body=BytesBody, example=_EXAMPLE, binary_types=tuple(_MEDIA_TYPES.values()), refusals=SPEECH)
    async def tts_bytes(request: Request) -> Response:
        """Speak one text and return an audio file."""
        body = read(BytesBody, await read_fields(request, host), host.settings.limits)
        file = _SpokenFile(host, body, host.owner_library(request.headers), request_id_of(request))
        return file.reply(file.pieces(), _MEDIA_TYPES[body.output_format.container])

    @app.post("/tts/sse", response_model=None)
    @describe_cartesia(body=SseBody, example=_EXAMPLE, is_events=True, refusals=SPEECH)
    async def tts_sse(request: Request) -> Response:
        """Speak one text and stream the audio as server-sent events."""
        body = read(SseBody, await read_fields(request, host), host.settings.limits)
        file = _SpokenFile(host, body, host.owner_library(request.headers), request_id_of(request))
        return file.reply(file.events(body), "text/event-stream")


class _SpokenFile(HttpSpeech[BytesBody | SseBody]):
    dialect = "cartesia"
    text_field = "transcript"
    _text = ""  # Text to speak, which is set when the request is created.

    @property
    def sample_rate(self) -> int:
        return self._body.output_format.sample_rate

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the audio file as they are generated.

        Raises:
            SpeechError: The request was refused or failed.
        """
        request = await self._request()
        writer = _writer(self._body.output_format)
        async with self._stream(request) as speech:
            async for event in speech:
                if isinstance(event, AudioChunk) and (piece := await self._encoding(writer.encode_pcm, event.pcm)):
                    yield piece
        yield await self._encoding(writer.finish)

    async def events(self, body: SseBody) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events with audio and estimated word times.

        An error after the first event is the last event.

        Raises:
            SpeechError: The request was refused, or failed before its first audio.
        """
        clock = asyncio.get_running_loop().time
        common_fields, last_sent_at, begun = {"context_id": body.context_id}, clock(), False
        word_times = WordTimes() if body.add_timestamps else None
        sent_bytes = 0
        try:
            async with aclosing(self.pieces()) as pieces:
                async for piece in pieces:
                    if not piece:
                        continue
                    now = clock()
                    yield _event(messages.audio_fields(piece, (now - last_sent_at) * 1000) | common_fields)
                    last_sent_at, begun = now, True
                    if word_times is not None:
                        if not sent_bytes:
                            word_times.append_text(await self._without_tags(self._text, tags=False))
                        sent_bytes += len(piece)
                        samples = sent_bytes * SAMPLE_RATE // body.output_format.bytes_per_second
                        if (times := word_times.advance_to(samples)).words:
                            yield _event(messages.word_times_fields(times) | common_fields)
        except SpeechError as error:
            if not begun:
                raise
            self._host.count_refusal(error)
            yield _event(messages.error(error, body.context_id, self._id))
            return
        if word_times is not None and (times := word_times.finish()).words:
            yield _event(messages.word_times_fields(times) | common_fields)
        notes = self._speech.notes if self._speech is not None else ()
        yield _event(messages.done_fields(notes) | common_fields)

    async def _request(self) -> SpeechRequest:
        body = self._body
        resolved = body.resolve_voice(self._resolver())
        self._text = await self._filtered(body.filter_name, body.transcript, tags=False, spells=True)
        return body.request(self._text, resolved, await self._stored(resolved))


class _WavWriter:
    """WAV encoder for all encodings, with an unknown length in the header."""

    def __init__(self, encoding: str, rate: int) -> None:
        self._head = wav_header(rate, code=_RIFF_CODES[encoding], width=SAMPLE_BYTES[encoding])
        self._samples = PcmWriter(encoding, rate)

    def encode_pcm(self, pcm: bytes) -> bytes:
        head, self._head = self._head, b""
        return head + self._samples.encode_pcm(pcm)

    def finish(self) -> bytes:
        return self._head + self._samples.finish()


def _event(fields: Reply) -> bytes:
    return server_sent_event(**without_nulls(fields))


def _writer(form: FileFormat | OutputFormat) -> AudioWriter:
    if isinstance(form, OutputFormat):
        return form.writer()
    match form.container:
        case "raw":
            return PcmWriter(form.encoding, form.sample_rate)
        case "wav":
            return _WavWriter(form.encoding, form.sample_rate)
        case "mp3":
            return Encoder("mp3", rate=form.sample_rate, bit_rate=form.bit_rate)
