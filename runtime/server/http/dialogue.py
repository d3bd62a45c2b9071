"""Dialogue of several turns, each with its own voice, spoken one after another as one audio stream.

Every speech request over HTTP is a dialogue, usually of one turn. It uses one slot: a turn is submitted when the
previous one has ended. All turns have the seed of the first one, so that a single turn can be repeated alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self, cast

import numpy as np

from runtime.errors import Busy, EmptyText, InvalidConfig, SpeechError
from runtime.request import (
    SAMPLE_RATE,
    AudioChunk,
    Finished,
    RequestStats,
    SpeechEvent,
    SpeechRequest,
    Started,
    StopReason,
)
from runtime.server.http.speech_stream import SpeechStream
from runtime.server.wire import BYTES_PER_SAMPLE, check_text
from runtime.settings import Limits
from runtime.shared.word_times import TimedWords, WordTimes

MAX_TURNS = 128
MAX_VOICES = 10  # Limit of ElevenLabs' API.
MAX_TURN_PAUSE_MS = 10_000.0
TURN_PAUSE_MS = 250.0

OpenStream = Callable[[int, SpeechRequest], SpeechStream]  # Opens the stream of a turn, given its index.


class Turn(Protocol):
    """Turn of a dialogue."""

    @property
    def text(self) -> str: ...

    @property
    def voice_name(self) -> str | None: ...


def check_turns(turns: Sequence[Turn], limits: Limits) -> None:
    """Check the size of a dialogue.

    Raises:
        TextTooLong: The texts together exceed the limit of one text.
        InvalidConfig: The dialogue has too many voices.
    """
    check_text(sum(len(turn.text) for turn in turns), limits, param="inputs")
    if len({turn.voice_name for turn in turns}) > MAX_VOICES:
        raise InvalidConfig(where="inputs", why=f"they may have at most {MAX_VOICES} voices", param="inputs")


@contextmanager
def errors_of_turn(index: int, fields: Mapping[str, str]) -> Iterator[None]:
    """Context manager that renames an error's field to the client's name for it, such as ``inputs.3.voice_id``."""
    try:
        yield
    except SpeechError as error:
        if (field := fields.get(error.param or "")) is not None:
            error.param = turn_field(index, field)
        raise


def turn_field(index: int, field: str) -> str:
    return f"inputs.{index}.{field}"


def check_turn_text(text: str) -> None:
    """Check the text of a turn before the first turn is spoken.

    Raises:
        EmptyText: The text is empty after filtering.
    """
    if not text.strip():
        raise EmptyText(param="text")


class DialogueStream:
    """Events of all turns as if of one request: one Started, audio with pauses between turns, one Finished.

    Thread: event loop.

    Raises:
        SpeechError: See `SpeechStream`. If the engine is busy between turns, submitting is retried for `queue_s`.
    """

    def __init__(
        self, requests: Sequence[SpeechRequest], open_stream: OpenStream, *, pause_s: float, queue_s: float
    ) -> None:
        self.turn = 0  # Index of the turn to which the last event belongs.
        self.turn_start = 0  # Index of the turn's first sample.
        self._requests = requests
        self._open_stream = open_stream
        self._pause_samples = round(pause_s * SAMPLE_RATE)
        self._queue_s = queue_s
        self._streams: list[SpeechStream] = []
        self._pending: list[SpeechEvent] = []  # Events to return before those of the current stream.
        self._ends: list[Finished] = []
        self._samples = 0

    @property
    def seed(self) -> int | None:
        return self._streams[0].seed if self._streams else self._requests[0].seed

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes of all turns so far, without duplicates."""
        return tuple(dict.fromkeys(note for stream in self._streams for note in stream.notes))

    def headers(self) -> dict[str, str]:
        """Return the headers that are known with the first audio."""
        return self._streams[0].headers() if self._streams else {}

    async def __aenter__(self) -> Self:
        self._streams.append(await self._open_stream(0, self._requests[0]).__aenter__())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._streams[-1].__aexit__(kind, error, traceback)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SpeechEvent:
        while True:
            event = self._pending.pop(0) if self._pending else await anext(self._streams[-1])
            match event:
                case Started() if self.turn:
                    continue
                case AudioChunk():
                    event = replace(event, first_sample=self._samples)
                    self._samples += len(event.pcm) // BYTES_PER_SAMPLE
                case Finished():
                    self._ends.append(event)
                    if event.stop_reason is StopReason.CANCELLED or self.turn == len(self._requests) - 1:
                        return _joined(self._ends)
                    await self._begin_turn(self.turn + 1)
                    continue
            return event

    async def _begin_turn(self, turn: int) -> None:
        first = await self._submit(turn)
        self.turn = turn
        self.turn_start = self._samples + self._pause_samples
        if self._pause_samples:
            pause = AudioChunk(pcm=bytes(self._pause_samples * BYTES_PER_SAMPLE), codes=_NO_CODES, first_sample=0)
            self._pending.append(pause)
        self._pending.append(first)

    async def _submit(self, turn: int) -> SpeechEvent:
        """Submit a turn and return its first event. Retry while other requests fill the queue."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._queue_s
        request = replace(self._requests[turn], seed=self.seed)
        while True:
            stream = self._open_stream(turn, request)
            try:
                self._streams.append(await stream.__aenter__())
                return await anext(stream)
            except Busy as error:
                wait_s = cast(float, error.facts.get("retry_after_s", self._queue_s))
                if loop.time() + wait_s > end:
                    raise
            await asyncio.sleep(wait_s)


class DialogueWords:
    """Estimated word times of all turns, from the start of the audio. Thread: one at a time."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._samples = 0
        self._turn, self._turn_start = 0, 0
        self._words = _words_of(texts[0])

    def hear(self, speech: DialogueStream, samples: int) -> dict[int, TimedWords]:
        """Advance the audio by `samples`; return the words that have ended, by turn."""
        told = {}
        if speech.turn != self._turn:
            told = self.finish()
            self._turn, self._turn_start = speech.turn, speech.turn_start
            self._words = _words_of(self._texts[self._turn])
        self._samples += samples
        if self._samples > self._turn_start:
            told |= self._placed(self._words.hear_until(self._samples - self._turn_start))
        return told

    def finish(self) -> dict[int, TimedWords]:
        """Return the remaining words of the current turn."""
        return self._placed(self._words.finish())

    def _placed(self, times: TimedWords) -> dict[int, TimedWords]:
        return {self._turn: times.moved(self._turn_start / SAMPLE_RATE)} if times.spans else {}


_NO_CODES = np.zeros((0, 1), np.int64)


def _words_of(text: str) -> WordTimes:
    words = WordTimes()
    words.add(text)
    return words


def _joined(ends: Sequence[Finished]) -> Finished:
    """Return one Finished for all turns: the first stop reason that is not EOS, with the statistics of all turns."""
    if len(ends) == 1:
        return ends[0]
    stats = [end.stats for end in ends]
    return Finished(
        stop_reason=next((end.stop_reason for end in ends if end.stop_reason is not StopReason.EOS), StopReason.EOS),
        stats=RequestStats(
            queue_ms=sum(each.queue_ms for each in stats),
            prefill_ms=sum(each.prefill_ms for each in stats),
            ttfa_ms=stats[0].ttfa_ms,
            total_ms=sum(each.total_ms for each in stats),
            prompt_tokens=sum(each.prompt_tokens for each in stats),
            frames=sum(each.frames for each in stats),
            audio_s=sum(each.audio_s for each in stats),
            parts=sum(each.parts for each in stats),
            repeated=sum(each.repeated for each in stats),
            underruns=sum(each.underruns for each in stats),
            guard=next((each.guard for each in stats if each.guard is not None), None),
        ),
        notes=tuple(dict.fromkeys(note for end in ends for note in end.notes)),
    )
