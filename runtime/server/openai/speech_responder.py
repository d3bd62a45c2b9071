"""Speech responses in OpenAI's API: streamed audio, events, or a complete file."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from runtime.errors import EmptyText, SpeechError
from runtime.request import AudioChunk, Finished, Mode, Reference, SpeechRequest, StopReason
from runtime.server.descriptions import metrics
from runtime.server.http.dialogue import DialogueStream, DialogueWordTimes
from runtime.server.http.speech import HttpSpeech, server_sent_event
from runtime.server.openai.schema import SpeechBody
from runtime.server.session.dialogue import check_turn_text, check_turns, errors_of_turn
from runtime.server.voices.uploads import read_upload
from runtime.server.voices.voice_resolver import ResolvedVoice
from runtime.server.wire import SAMPLE_BYTES, Reply, check_text
from runtime.shared.audio.encoding import Encoder
from runtime.shared.audio.loudness import normalize_loudness
from runtime.shared.port.errors import error_body
from runtime.shared.text.word_times import TimedWords

SEEDS = 2**63
_TURN_FIELDS = {
    **{name: name for name in ("voice", "voice.id", "speaker", "language", "text")},
    **{"instruct": "instructions", "input": "text"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteAudio:
    """Complete audio of a response, with the final engine event and the word times."""

    audio: bytes = field(repr=False)
    media_type: str
    seed: int | None
    end: Finished
    notes: tuple[str, ...]  # Notes about ignored fields and speech problems.
    words: list[Reply] = field(default_factory=list)  # Word times, which are empty if the client did not request them.


class SpeechResponder(HttpSpeech[SpeechBody]):
    """Speech response in OpenAI's API: streamed audio, server-sent events, or a complete file."""

    dialect = "openai"
    text_field = "input"
    _uploaded: Reference | None = None  # Recording in the request body after decoding, or None.

    @property
    def sample_rate(self) -> int:
        return self._body.sample_rate

    def _text_field_of(self, turn: int) -> str:
        return super()._text_field_of(turn) if self._body.inputs else self.text_field

    async def as_audio(self) -> AsyncGenerator[bytes, None]:
        """Yield encoded audio while the speech is being generated.

        Raises:
            SpeechError: The request was refused or failed.
        """
        encoder = self._encoder()
        async with self._stream(*await self._requests(), pause_ms=self._body.turn_pause_ms) as speech:
            async for speech_event in speech:
                if isinstance(speech_event, AudioChunk) and (
                    audio := await self._encoded(encoder, encoder.encode_pcm, speech_event.pcm)
                ):
                    yield audio
        yield await self._encoded(encoder, encoder.finish)

    async def as_events(self) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events with audio.

        An error after the first audio is the last event.

        Raises:
            SpeechError: The request failed before the first audio.
        """
        encoder, begun = self._encoder(), False
        try:
            requests = await self._requests()
            word_times = await self._word_times(requests)
            async with self._stream(*requests, pause_ms=self._body.turn_pause_ms) as speech:
                async for speech_event in speech:
                    if isinstance(speech_event, AudioChunk):
                        audio = await self._encoded(encoder, encoder.encode_pcm, speech_event.pcm)
                        times = _times_of_chunk(word_times, speech, speech_event)
                    elif isinstance(speech_event, Finished):
                        audio = await self._encoded(encoder, encoder.finish)
                        times = word_times.finish() if word_times is not None else {}
                    else:
                        continue
                    if audio:
                        yield self._delta(audio)
                        begun = True
                    if times:
                        yield server_sent_event(
                            type="speech.audio.timestamps", words=self._word_times_of(times), estimated=True
                        )
                    if isinstance(speech_event, Finished):
                        yield self._done(speech_event, speech)
        except SpeechError as error:
            if not begun:
                raise
            yield server_sent_event(
                type="speech.audio.error", error=error_body(error), partial_audio=True, action="discard"
            )

    async def generate_complete_audio(self) -> CompleteAudio:
        """Return the complete audio of a request.

        If the speech does not end in time or is too short, it is generated again with the next seed, up to `retries`
        times.

        Raises:
            SpeechError: The request was refused or failed.
        """
        requests = await self._requests()
        for left in range(self._body.retries, -1, -1):
            chunks, end, speech, word_times = await self._collected(requests)
            if end.stop_reason not in {StopReason.RUNAWAY, StopReason.SHORT} or not left:
                break
            seed = ((speech.seed or 0) + 1) % SEEDS
            requests = [replace(request, seed=seed) for request in requests]
        encoder, target_lufs = self._encoder(whole=True), self._body.loudness_lufs

        def encode() -> bytes:
            # The chunks are not joined, because copying minutes of audio would hold the GIL for milliseconds.
            pieces = chunks
            if target_lufs is not None:
                pieces = [normalize_loudness(np.frombuffer(b"".join(chunks), "<i2"), target_lufs).tobytes()]
            return b"".join([*map(encoder.encode_pcm, pieces), encoder.finish()])

        audio = await self._encoding(encode)
        return CompleteAudio(
            audio=audio, media_type=encoder.media_type, seed=speech.seed, end=end, notes=speech.notes, words=word_times
        )

    async def _collected(
        self, requests: Sequence[SpeechRequest]
    ) -> tuple[list[bytes], Finished, DialogueStream, list[Reply]]:
        chunks: list[bytes] = []
        word_times = await self._word_times(requests)
        spoken_words: list[Reply] = []
        async with self._stream(*requests, pause_ms=self._body.turn_pause_ms) as speech:
            async for speech_event in speech:
                if isinstance(speech_event, AudioChunk):
                    chunks.append(speech_event.pcm)
                    spoken_words += self._word_times_of(_times_of_chunk(word_times, speech, speech_event))
                elif isinstance(speech_event, Finished):
                    end = speech_event
        if word_times is not None:
            spoken_words += self._word_times_of(word_times.finish())
        return chunks, end, speech, spoken_words

    async def _word_times(self, requests: Sequence[SpeechRequest]) -> DialogueWordTimes | None:
        """Return the estimator of word times, or None if the body does not request them."""
        if not self._body.timestamp_granularities:
            return None
        return await self._dialogue_words(requests, tags=self._body.tags)

    def _word_times_of(self, times: Mapping[int, TimedWords]) -> list[Reply]:
        """Return word times in the format of OpenAI's transcriptions.

        The word times of a dialogue include the index of the turn.
        """
        speed, is_dialogue = self._body.speed, bool(self._body.inputs)
        return [
            {
                "word": word,
                "start": round(start / speed, 3),
                "end": round(end / speed, 3),
                **({"input_index": turn} if is_dialogue else {}),
            }
            for turn, word_times in times.items()
            for word, start, end in zip(word_times.words, word_times.start, word_times.end, strict=True)
        ]

    async def _requests(self) -> list[SpeechRequest]:
        """Return the engine request of the text, or the engine requests of all turns.

        Raises:
            SpeechError: A voice or text cannot be spoken. In a dialogue, the error's field contains the turn's index.
        """
        body = self._body
        if body.is_narration:
            return await self._narration()
        if not body.inputs:
            return [await self._request(body)]
        check_turns(body.inputs, self._host.settings.limits)
        requests = []
        for index, turn in enumerate(body.turns):
            with errors_of_turn(index, _TURN_FIELDS):
                requests.append(await self._request(turn))
                check_turn_text(requests[-1].text)
        return requests

    async def _narration(self) -> list[SpeechRequest]:
        """Return one engine request for each part of a narration, with the part's voice.

        Parts without words are omitted.
        """
        body = self._body
        check_text(len(body.input), self._host.settings.limits, param=self.text_field)
        requests = [await self._request(part) for part in body.narration()]
        requests = [request for request in requests if request.text.strip()]
        if not requests:
            raise EmptyText(param=self.text_field)
        return requests

    async def _request(self, body: SpeechBody) -> SpeechRequest:
        resolved = body.resolve_voice(self._resolver())
        text = await self._filtered(body.text_filter, body.input, tags=body.tags)
        return body.request(text, resolved, await self._reference(body, resolved))

    async def _reference(self, body: SpeechBody, resolved: ResolvedVoice) -> Reference | None:
        recording = body.recording
        if resolved.stored is not None or resolved.mode is not Mode.BASE or recording is None:
            return await self._stored(resolved)
        if isinstance(recording, Reference):
            return recording
        if self._uploaded is None:
            host = self._host
            samples = await host.run_in_worker(read_upload, recording, host.settings.limits, host.fetcher)
            if isinstance(samples, SpeechError):
                raise samples
            self._uploaded = Reference(samples=samples, text=body.ref_text, x_vector_only=body.x_vector_only_mode)
        return self._uploaded

    def _encoder(self, *, whole: bool = False) -> Encoder:
        body = self._body
        return Encoder(
            body.response_format,
            rate=body.sample_rate,
            speed=body.speed,
            volume=body.volume,
            bit_rate=body.bit_rate,
            whole=whole,
        )

    async def _encoded(self, encoder: Encoder, step: Callable[..., bytes], *arguments: bytes) -> bytes:
        """Run a step of the encoder on a worker thread, or on the event loop if it is fast."""
        if encoder.is_instant:
            return step(*arguments)
        return await self._encoding(step, *arguments)

    def _delta(self, audio: bytes) -> bytes:
        data = base64.b64encode(audio).decode("ascii")
        return server_sent_event(type="speech.audio.delta", audio=data, response_format=self._body.response_format)

    def _done(self, end: Finished, speech: DialogueStream) -> bytes:
        return server_sent_event(
            type="speech.audio.done",
            usage=usage(end),
            stop_reason=end.stop_reason.value,
            seed=speech.seed,
            notes=list(speech.notes),
            metrics=metrics(end.stats),
        )


def _times_of_chunk(
    words: DialogueWordTimes | None, speech: DialogueStream, chunk: AudioChunk
) -> dict[int, TimedWords]:
    return {} if words is None else words.advance(speech, len(chunk.pcm) // SAMPLE_BYTES)


def usage(end: Finished) -> Reply:
    """Return OpenAI's usage object with the numbers of prompt tokens and frames."""
    frames = end.stats.frames
    return {
        "input_tokens": end.stats.prompt_tokens,
        "output_tokens": frames,
        "total_tokens": end.stats.prompt_tokens + frames,
    }
