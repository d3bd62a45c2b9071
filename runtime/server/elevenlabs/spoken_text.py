"""Speech responses of ElevenLabs' HTTP routes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from runtime.request import AudioChunk, SpeechRequest
from runtime.server.elevenlabs import alignment
from runtime.server.elevenlabs.output_formats import OutputFormat
from runtime.server.elevenlabs.responses import VoiceSegment
from runtime.server.elevenlabs.schema import DialogueBody, TextToSpeechBody, resolve_voice, synthesis_options
from runtime.server.http.speech import HttpSpeech, base64_json
from runtime.server.session.dialogue import check_turn_text, check_turns, errors_of_turn
from runtime.server.wire import SAMPLE_BYTES, Reply
from runtime.shared.text.word_times import TimedWords

# Media type of a stream of JSON objects. ElevenLabs declares application/json, but a client would then expect a single
# object.
JSON_LINES = "application/x-ndjson"

_TURN_FIELDS = {"voice_id": "voice_id", "text": "text"}
Timed = dict[int, TimedWords]  # Word times of each turn, by the index of the turn.


class SpokenText(HttpSpeech[TextToSpeechBody | DialogueBody]):
    """HTTP response with the speech of a text or a dialogue.

    `voice_id` is the voice of a text. The turns of a dialogue have their own voices.
    """

    dialect = "elevenlabs"
    text_field = "text"

    def __init__(self, *common_arguments: Any, form: OutputFormat, voice_id: str) -> None:
        super().__init__(*common_arguments)
        self.format = form
        self._voice_id = voice_id

    @property
    def sample_rate(self) -> int:
        return self.format.rate

    async def pieces(self, *, whole: bool = False) -> AsyncGenerator[bytes, None]:
        """Yield the audio file in pieces during generation, or at the end if `whole` is True.

        Raises:
            SpeechError: The request was refused or failed.
        """
        async for data, _ in self._timed(whole=whole):
            if data:
                yield data

    async def timed_lines(self) -> AsyncGenerator[bytes, None]:
        """Yield JSON lines with audio and the times of the characters in this audio.

        Raises:
            SpeechError: The request was refused or failed.
        """
        timed: Timed = {}
        async for data, times in self._timed():
            _join(timed, times)
            if data:
                yield self._line(data, timed)
                timed = {}
        if timed:
            yield self._line(b"", timed)

    async def timed_whole(self) -> AsyncGenerator[bytes, None]:
        """Yield one JSON object with the complete audio and the times of all characters.

        Raises:
            SpeechError: The request was refused or failed.
        """
        audio, timed = bytearray(), Timed()
        async for data, times in self._timed(whole=self.format.has_head):
            audio += data
            _join(timed, times)
        for piece in base64_json("audio_base64", audio, self._times(timed)):
            yield piece
        yield b"\n"

    async def _timed(self, *, whole: bool = False) -> AsyncGenerator[tuple[bytes, Timed], None]:
        """Yield pieces of encoded audio (possibly empty) with the words that end in each piece."""
        requests = await self._requests()
        writer = self.format.writer(self._body.speed, whole=whole)
        word_times = await self._dialogue_words(requests, tags=self._body.tags)
        pause_ms = self._body.turn_pause_ms if isinstance(self._body, DialogueBody) else 0.0
        async with self._stream(*requests, pause_ms=pause_ms) as speech:
            async for event in speech:
                if isinstance(event, AudioChunk):
                    times = word_times.advance(speech, len(event.pcm) // SAMPLE_BYTES)
                    yield await self._encoding(writer.encode_pcm, event.pcm), times
        yield await self._encoding(writer.finish), word_times.finish()

    def _line(self, data: bytes, timed: Mapping[int, TimedWords]) -> bytes:
        return b"".join(base64_json("audio_base64", data, self._times(timed))) + b"\n"

    def _times(self, timed: Mapping[int, TimedWords]) -> Reply:
        """Return the times of the characters, and the additional fields of a response."""
        word_times = TimedWords()
        for times in timed.values():
            word_times.join(times)
        times_of_characters = alignment.file_alignment(word_times, self._body.speed)
        return {
            "alignment": times_of_characters,
            "normalized_alignment": times_of_characters,
            **({"voice_segments": self._segments(self._body, timed)} if isinstance(self._body, DialogueBody) else {}),
        }

    def _segments(self, body: DialogueBody, timed: Mapping[int, TimedWords]) -> list[VoiceSegment]:
        segments: list[VoiceSegment] = []
        first = 0
        for turn, times in timed.items():
            end = first + sum(map(len, times.spans))
            segments.append(
                {
                    "voice_id": body.inputs[turn].voice_id,
                    "start_time_seconds": round(times.start[0] / body.speed, 3),
                    "end_time_seconds": round(times.end[-1] / body.speed, 3),
                    "character_start_index": first,
                    "character_end_index": end,
                    "dialogue_input_index": turn,
                }
            )
            first = end
        return segments

    async def _requests(self) -> list[SpeechRequest]:
        """Return the requests for the engine, which are spoken one after another."""
        if isinstance(self._body, TextToSpeechBody):
            return [await self._request(self._body.text, self._voice_id)]
        check_turns(self._body.inputs, self._host.settings.limits)
        requests = []
        for index, turn in enumerate(self._body.inputs):
            with errors_of_turn(index, _TURN_FIELDS):
                requests.append(await self._request(turn.text, turn.voice_id))
                check_turn_text(requests[-1].text)
        return requests

    async def _request(self, text: str, voice_id: str) -> SpeechRequest:
        body, cards = self._body, self._host.engine.cards
        resolved = resolve_voice(voice_id, body.model_id, body.instructions, self._resolver())
        config = synthesis_options(body, body.language_code, None, resolved, cards)
        spoken = await self._filtered(body.text_filter or "none", text, tags=body.tags, spells=True)
        return config.request(spoken, resolved, await self._stored(resolved))


def _join(timed: Timed, later: Mapping[int, TimedWords]) -> None:
    for turn, times in later.items():
        timed.setdefault(turn, TimedWords()).join(times)
