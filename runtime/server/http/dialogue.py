"""Audio stream of a dialogue, a sequence of turns with a voice for each turn.

Every HTTP speech request is a dialogue, usually with a single turn. A turn is submitted after the previous turn has
ended, so a dialogue uses one slot. All turns use the first turn's seed, so that each turn can be reproduced separately.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self, cast

import numpy as np

from runtime.errors import Busy
from runtime.request import (
    SAMPLE_RATE,
    AudioChunk,
    Finished,
    SpeechEvent,
    SpeechRequest,
    Started,
    StopReason,
)
from runtime.server.http.speech_stream import SpeechStream
from runtime.server.session.dialogue import join_ends
from runtime.server.wire import SAMPLE_BYTES
from runtime.shared.text.word_times import TimedWords, WordTimes

# Function that creates the stream of a turn. Arguments: index of the turn, request of the turn.
OpenStream = Callable[[int, SpeechRequest], SpeechStream]


class DialogueStream:
    """Async iterator over the events of all turns of a dialogue.

    The events are one Started, the audio with pauses between the turns, and one Finished.

    Thread: event loop.

    Raises:
        SpeechError: See `SpeechStream`. If the engine is busy, a later turn is submitted again for up to `queue_s`
            seconds.
    """

    def __init__(
        self, requests: Sequence[SpeechRequest], open_stream: OpenStream, *, pause_s: float, queue_s: float
    ) -> None:
        self.turn = 0  # Index of the turn to which the last event belongs.
        self.turn_start = 0  # Index of the first sample of the turn.
        self._requests = requests
        self._open_stream = open_stream
        self._pause_samples = round(pause_s * SAMPLE_RATE)
        self._queue_s = queue_s
        self._streams: list[SpeechStream] = []
        self._pending: list[SpeechEvent] = []  # Events that must be returned before the events of the current stream.
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
        """Return the response headers with values that are known after the first audio."""
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
                    self._samples += len(event.pcm) // SAMPLE_BYTES
                case Finished():
                    self._ends.append(event)
                    if event.stop_reason is StopReason.CANCELLED or self.turn == len(self._requests) - 1:
                        return join_ends(self._ends)
                    await self._begin_turn(self.turn + 1)
                    continue
            return event

    async def _begin_turn(self, turn: int) -> None:
        first = await self._submit(turn)
        self.turn = turn
        self.turn_start = self._samples + self._pause_samples
        if self._pause_samples:
            pause = AudioChunk(pcm=bytes(self._pause_samples * SAMPLE_BYTES), codes=_NO_CODES, first_sample=0)
            self._pending.append(pause)
        self._pending.append(first)

    async def _submit(self, turn: int) -> SpeechEvent:
        """Submit a turn, retry while the engine's queue is full, and return its first event."""
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


class DialogueWordTimes:
    """Estimated times of the words in all turns of a dialogue, from the start of the audio.

    Thread: any, but only one at a time.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._samples = 0
        self._turn, self._turn_start = 0, 0
        self._word_times = _word_times_of(texts[0])

    def advance(self, speech: DialogueStream, samples: int) -> dict[int, TimedWords]:
        """Record that `samples` more samples were generated, and return the words that have ended.

        The words are in a dictionary by turn index.
        """
        ended_words = {}
        if speech.turn != self._turn:
            ended_words = self.finish()
            self._turn, self._turn_start = speech.turn, speech.turn_start
            self._word_times = _word_times_of(self._texts[self._turn])
        self._samples += samples
        if self._samples > self._turn_start:
            ended_words |= self._placed(self._word_times.advance_to(self._samples - self._turn_start))
        return ended_words

    def finish(self) -> dict[int, TimedWords]:
        """End the text of the current turn and return its words that were not returned before.

        The words are in a dictionary by turn index.
        """
        return self._placed(self._word_times.finish())

    def _placed(self, times: TimedWords) -> dict[int, TimedWords]:
        return {self._turn: times.shifted_by(self._turn_start / SAMPLE_RATE)} if times.spans else {}


_NO_CODES = np.zeros((0, 1), np.int64)


def _word_times_of(text: str) -> WordTimes:
    word_times = WordTimes()
    word_times.append_text(text)
    return word_times
