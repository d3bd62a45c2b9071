"""One body of the HTTP speech routes on its way to sound: as it is made, as events, or whole."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace

from runtime.encoding import Encoder
from runtime.errors import SpeechError
from runtime.request import AudioChunk, Finished, Mode, Reference, SpeechRequest, StopReason
from runtime.server import replies
from runtime.server.casting import Casting, Role
from runtime.server.host import Host
from runtime.server.openai_schema import SpeechBody
from runtime.server.refusals import error_body
from runtime.server.replies import Reply
from runtime.server.speaking import Speaking, counted, reply_headers
from runtime.server.uploads import read_upload
from runtime.server.voice_library import VoiceLibrary

SEEDS = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A finished reply."""

    audio: bytes = field(repr=False)
    media_type: str
    seed: int | None
    end: Finished


class Rendition:
    """Serves one body, once, in one of three ways. Thread: event loop; decoding and encoding are done by workers."""

    def __init__(self, host: Host, body: SpeechBody, library: VoiceLibrary) -> None:
        self.id = secrets.token_hex(8)
        self._host, self._body, self._library = host, body, library
        self._speech: Speaking | None = None

    def headers(self) -> dict[str, str]:
        """What every reply carries."""
        return reply_headers(self.id, self._body.sample_rate)

    def late_headers(self) -> dict[str, str]:
        """What is known once the first sound is there."""
        return {} if self._speech is None else self._speech.headers()

    async def as_audio(self) -> AsyncGenerator[bytes, None]:
        """Encoded sound as it is made.

        Raises:
            SpeechError: the request was refused, or broke.
        """
        encoder = self._encoder()
        async with self._speaking(await self._request()) as speech:
            async for event in speech:
                if isinstance(event, AudioChunk) and (audio := await self._encoded(encoder, encoder.add, event.pcm)):
                    yield audio
        yield await self._encoded(encoder, encoder.finish)

    async def as_events(self) -> AsyncGenerator[bytes, None]:
        """The same as server-sent events. An error after the first sound is the last of them.

        Raises:
            SpeechError: before the first sound.
        """
        encoder, begun = self._encoder(), False
        try:
            async with self._speaking(await self._request()) as speech:
                async for event in speech:
                    if isinstance(event, AudioChunk):
                        audio = await self._encoded(encoder, encoder.add, event.pcm)
                    elif isinstance(event, Finished):
                        audio = await self._encoded(encoder, encoder.finish)
                    else:
                        continue
                    if audio:
                        yield self._delta(audio)
                        begun = True
                    if isinstance(event, Finished):
                        yield self._done(event, speech.seed)
        except SpeechError as error:
            if not begun:
                raise
            yield _event("speech.audio.error", error=error_body(error), partial_audio=True, action="discard")

    async def whole(self) -> Whole:
        """The finished sound; a runaway is made again with the next seed, as often as the body allows.

        Raises:
            SpeechError: the request was refused, or broke.
        """
        request = await self._request()
        for left in range(self._body.retries, -1, -1):
            pcm, end, seed = await self._collected(request)
            if end.stop_reason is not StopReason.RUNAWAY or not left:
                break
            request = replace(request, seed=((seed or 0) + 1) % SEEDS)
        encoder = self._encoder(whole=True)
        audio = await self._encoded(encoder, lambda: encoder.add(pcm) + encoder.finish())
        return Whole(audio=audio, media_type=encoder.media_type, seed=seed, end=end)

    async def _collected(self, request: SpeechRequest) -> tuple[bytes, Finished, int | None]:
        chunks: list[bytes] = []
        async with self._speaking(request) as speech:
            async for event in speech:
                if isinstance(event, AudioChunk):
                    chunks.append(event.pcm)
                elif isinstance(event, Finished):
                    end = event
        return b"".join(chunks), end, speech.seed

    def _speaking(self, request: SpeechRequest) -> Speaking:
        self._speech = counted(self._host, request, reply_id=self.id, dialect="openai", text_field="input")
        return self._speech

    async def _request(self) -> SpeechRequest:
        host, body = self._host, self._body
        casting = Casting(host.engine.cards, self._library)
        role = casting.cast(
            mode=body.task_type, model=body.model, voice=body.voice, has_reference=body.ref_audio is not None
        )
        return body.request(body.input, role, await self._reference(role))

    async def _reference(self, role: Role) -> Reference | None:
        host, body, loop = self._host, self._body, asyncio.get_running_loop()
        if role.stored is not None:
            return await loop.run_in_executor(host.decoders, self._library.reference, role.stored)
        if role.mode is not Mode.BASE or body.ref_audio is None:
            return None
        samples = await loop.run_in_executor(
            host.decoders, read_upload, body.ref_audio, host.settings.limits, host.fetcher
        )
        if isinstance(samples, SpeechError):
            raise samples
        return Reference(samples=samples, text=body.ref_text, x_vector_only=body.x_vector_only_mode)

    def _encoder(self, *, whole: bool = False) -> Encoder:
        body = self._body
        return Encoder(body.response_format, rate=body.sample_rate, speed=body.speed, whole=whole)

    async def _encoded(self, encoder: Encoder, step: Callable[..., bytes], *given: bytes) -> bytes:
        """Take a step of the encoder, on the loop only if it does not hold it up."""
        if encoder.is_instant:
            return step(*given)
        return await asyncio.get_running_loop().run_in_executor(self._host.encoders, step, *given)

    def _delta(self, audio: bytes) -> bytes:
        data = base64.b64encode(audio).decode("ascii")
        return _event("speech.audio.delta", audio=data, response_format=self._body.response_format)

    def _done(self, end: Finished, seed: int | None) -> bytes:
        return _event(
            "speech.audio.done",
            usage=usage(end),
            stop_reason=end.stop_reason.value,
            seed=seed,
            metrics=replies.metrics(end.stats),
        )


def usage(end: Finished) -> Reply:
    """OpenAI's count: positions of the prompt, and frames."""
    made = end.stats.frames
    return {
        "input_tokens": end.stats.prompt_tokens,
        "output_tokens": made,
        "total_tokens": end.stats.prompt_tokens + made,
    }


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields}, separators=(',', ':'))}\n\n".encode()
