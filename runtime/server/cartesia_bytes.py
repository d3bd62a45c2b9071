"""Cartesia's ``POST /tts/bytes``: one text, answered by a file as it is made. By example in docs/api.md."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator

from fastapi import FastAPI, Request, Response

from runtime.encoding import FORMATS, Encoder, wav_header
from runtime.request import AudioChunk, SpeechRequest
from runtime.server.cartesia_schema import BytesBody, FileFormat, read_bytes_body
from runtime.server.casting import Casting
from runtime.server.host import Host
from runtime.server.openai import read_fields
from runtime.server.pcm_formats import PcmWriter
from runtime.server.speaking import LiveReply, Speaking, counted, reply_headers
from runtime.server.voice_library import VoiceLibrary

_MEDIA_TYPES = {"raw": FORMATS["pcm"].media_type, "wav": FORMATS["wav"].media_type, "mp3": FORMATS["mp3"].media_type}
_IN_WAV = {"pcm_s16le": (1, 2), "pcm_f32le": (3, 4), "pcm_alaw": (6, 1), "pcm_mulaw": (7, 1)}  # RIFF's code; width


def add_routes(app: FastAPI, host: Host) -> None:
    """Register the route."""

    @app.post("/tts/bytes", response_model=None)
    async def tts_bytes(request: Request) -> Response:
        """Speak one text."""
        body = read_bytes_body(await read_fields(request, host), host.settings.limits)
        file = _SpokenFile(host, body, host.shelf(request.headers))
        return LiveReply(
            file.pieces(),
            media_type=_MEDIA_TYPES[body.output_format.container],
            headers=reply_headers(file.id, body.output_format.sample_rate),
            late_headers=file.late_headers,
            send_s=host.settings.server.send_s,
            replies=host.replies,
            on_broken=host.refused,
        )


class _SpokenFile:
    """Serves one body, once. Thread: event loop; stored voices are read and sound is encoded by workers."""

    def __init__(self, host: Host, body: BytesBody, library: VoiceLibrary) -> None:
        self.id = secrets.token_hex(8)
        self._host, self._body, self._library = host, body, library
        self._speech: Speaking | None = None

    def late_headers(self) -> dict[str, str]:
        return {} if self._speech is None else self._speech.headers()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The file as it is made.

        Raises:
            SpeechError: the request was refused, or broke.
        """
        request = await self._request()
        host, writer, loop = self._host, _writer(self._body.output_format), asyncio.get_running_loop()
        self._speech = counted(host, request, reply_id=self.id, dialect="cartesia", text_field="transcript")
        async with self._speech as speech:
            async for event in speech:
                if isinstance(event, AudioChunk) and (
                    piece := await loop.run_in_executor(host.encoders, writer.add, event.pcm)
                ):
                    yield piece
        yield await loop.run_in_executor(host.encoders, writer.finish)

    async def _request(self) -> SpeechRequest:
        host, body = self._host, self._body
        cards = host.engine.cards
        role = body.cast(Casting(cards, self._library), {card.name for card in cards})
        reference = None
        if role.stored is not None:
            loop = asyncio.get_running_loop()
            reference = await loop.run_in_executor(host.decoders, self._library.reference, role.stored)
        return body.request(body.transcript, role, reference, open_text=False)


class _WavWriter:
    """Samples of any of the encodings behind a header that does not know how many there will be."""

    def __init__(self, encoding: str, rate: int) -> None:
        code, width = _IN_WAV[encoding]
        self._head = wav_header(rate, code=code, width=width)
        self._samples = PcmWriter(encoding, rate)

    def add(self, pcm: bytes) -> bytes:
        head, self._head = self._head, b""
        return head + self._samples.add(pcm)

    def finish(self) -> bytes:
        return self._head + self._samples.finish()


def _writer(form: FileFormat) -> PcmWriter | _WavWriter | Encoder:
    match form.container:
        case "raw":
            return PcmWriter(form.encoding, form.sample_rate)
        case "wav":
            return _WavWriter(form.encoding, form.sample_rate)
        case "mp3":
            return Encoder("mp3", rate=form.sample_rate, bit_rate=form.bit_rate)
