"""Response to one body of the speech routes: streamed audio, events, or a complete file."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace

from runtime.errors import SpeechError
from runtime.request import AudioChunk, Finished, Mode, Reference, SpeechRequest, StopReason
from runtime.server.descriptions import metrics
from runtime.server.http.speech import HttpSpeech, event
from runtime.server.http.speech_stream import SpeechStream
from runtime.server.openai.schema import SpeechBody
from runtime.server.voices.uploads import read_upload
from runtime.server.voices.voice_resolver import ResolvedVoice
from runtime.server.wire import Reply
from runtime.shared.encoding import Encoder
from runtime.shared.port.errors import error_body

SEEDS = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A finished reply."""

    audio: bytes = field(repr=False)
    media_type: str
    seed: int | None
    end: Finished
    notes: tuple[str, ...]  # Notes about ignored fields and faults of the speech.


class SpeechResponder(HttpSpeech[SpeechBody]):
    """Serves one body in one of three ways."""

    dialect = "openai"
    text_field = "input"

    @property
    def sample_rate(self) -> int:
        return self._body.sample_rate

    async def as_audio(self) -> AsyncGenerator[bytes, None]:
        """Yield encoded audio during generation.

        Raises:
            SpeechError: the request was refused, or broke.
        """
        encoder = self._encoder()
        async with self._stream(await self._request()) as speech:
            async for heard in speech:
                if isinstance(heard, AudioChunk) and (audio := await self._encoded(encoder, encoder.add, heard.pcm)):
                    yield audio
        yield await self._encoded(encoder, encoder.finish)

    async def as_events(self) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events with audio. An error after the first audio is the last event.

        Raises:
            SpeechError: before the first sound.
        """
        encoder, begun = self._encoder(), False
        try:
            async with self._stream(await self._request()) as speech:
                async for heard in speech:
                    if isinstance(heard, AudioChunk):
                        audio = await self._encoded(encoder, encoder.add, heard.pcm)
                    elif isinstance(heard, Finished):
                        audio = await self._encoded(encoder, encoder.finish)
                    else:
                        continue
                    if audio:
                        yield self._delta(audio)
                        begun = True
                    if isinstance(heard, Finished):
                        yield self._done(heard, speech)
        except SpeechError as error:
            if not begun:
                raise
            yield event(type="speech.audio.error", error=error_body(error), partial_audio=True, action="discard")

    async def whole(self) -> Whole:
        """Return the finished audio; runaways and short speech are retried with the next seed if the body allows.

        Raises:
            SpeechError: the request was refused, or broke.
        """
        request = await self._request()
        for left in range(self._body.retries, -1, -1):
            pcm, end, speech = await self._collected(request)
            if end.stop_reason not in {StopReason.RUNAWAY, StopReason.SHORT} or not left:
                break
            request = replace(request, seed=((speech.seed or 0) + 1) % SEEDS)
        encoder = self._encoder(whole=True)
        audio = await self._encoded(encoder, lambda: encoder.add(pcm) + encoder.finish())
        return Whole(audio=audio, media_type=encoder.media_type, seed=speech.seed, end=end, notes=speech.notes)

    async def _collected(self, request: SpeechRequest) -> tuple[bytes, Finished, SpeechStream]:
        chunks: list[bytes] = []
        async with self._stream(request) as speech:
            async for heard in speech:
                if isinstance(heard, AudioChunk):
                    chunks.append(heard.pcm)
                elif isinstance(heard, Finished):
                    end = heard
        return b"".join(chunks), end, speech

    async def _request(self) -> SpeechRequest:
        body = self._body
        resolved = body.resolve_voice(self._resolver())
        text = await self._filtered(body.text_filter, body.input, tags=body.tags)
        return body.request(text, resolved, await self._reference(resolved))

    async def _reference(self, resolved: ResolvedVoice) -> Reference | None:
        host, body = self._host, self._body
        if resolved.stored is not None or resolved.mode is not Mode.BASE or body.ref_audio is None:
            return await self._stored(resolved)
        samples = await self._host.run_in_worker(read_upload, body.ref_audio, host.settings.limits, host.fetcher)
        if isinstance(samples, SpeechError):
            raise samples
        return Reference(samples=samples, text=body.ref_text, x_vector_only=body.x_vector_only_mode)

    def _encoder(self, *, whole: bool = False) -> Encoder:
        body = self._body
        return Encoder(body.response_format, rate=body.sample_rate, speed=body.speed, whole=whole)

    async def _encoded(self, encoder: Encoder, step: Callable[..., bytes], *given: bytes) -> bytes:
        """Run a step of the encoder, on the event loop only if it is fast."""
        if encoder.is_instant:
            return step(*given)
        return await self._encoding(step, *given)

    def _delta(self, audio: bytes) -> bytes:
        data = base64.b64encode(audio).decode("ascii")
        return event(type="speech.audio.delta", audio=data, response_format=self._body.response_format)

    def _done(self, end: Finished, speech: SpeechStream) -> bytes:
        return event(
            type="speech.audio.done",
            usage=usage(end),
            stop_reason=end.stop_reason.value,
            seed=speech.seed,
            notes=list(speech.notes),
            metrics=metrics(end.stats),
        )


def usage(end: Finished) -> Reply:
    """Return OpenAI's usage: prompt positions and frames."""
    made = end.stats.frames
    return {
        "input_tokens": end.stats.prompt_tokens,
        "output_tokens": made,
        "total_tokens": end.stats.prompt_tokens + made,
    }
