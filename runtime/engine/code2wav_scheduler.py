"""Offers the chunks that are due to the Code2Wav worker, which hands their sound to the clients as soon as it is made.

The engine's thread offers and collects; what says worker runs on the worker's threads.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device import Device
from runtime.device.interface import Stream
from runtime.engine.code2wav_streams import Code2WavStreams
from runtime.engine.code2wav_worker import Code2WavTask, Code2WavWorker
from runtime.engine.guards import spent_after
from runtime.engine.scheduler import BACKLOG, ENDLESS, Chunk, Pace, Scheduler, SequenceTable
from runtime.engine.sequence import Sequence
from runtime.errors import GenerationFailed, SpeechError
from runtime.request import SAMPLE_RATE, AudioChunk, Guard

log = logging.getLogger(__name__)
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SequenceSound:
    """What the worker made of a row's chunk: nothing where there is an error, and fewer frames where a guard struck."""

    pcm: bytes
    frames: int
    guard: Guard | None = None
    error: SpeechError | None = None


@dataclass(frozen=True, slots=True)
class Code2WavOutput:
    """A chunk that the worker is done with, row by row; ``sounds`` is None where it failed as a whole."""

    chunk: Chunk
    sequences: list[Sequence]
    sounds: list[SequenceSound] | None
    at: float


class Code2WavScheduler:
    """Schedules the sound of one engine core's rows.

    Args:
        codes: of the frames that have no sound yet, a ring a slot, [S, BACKLOG, Q].
        holders: by slot.
        guarded: whether speech that goes on after its text is cut off.
        wake: is called when something can be collected.
    """

    def __init__(
        self,
        device: Device,
        streams: Code2WavStreams,
        scheduler: Scheduler,
        table: SequenceTable,
        codes: Codes,
        holders: Mapping[int, Sequence],
        worker: Code2WavWorker,
        clock: Callable[[], float],
        wake: Callable[[], None],
        *,
        guarded: bool,
    ) -> None:
        self.pace = Pace()
        self._device, self._streams, self._scheduler = device, streams, scheduler
        self._table, self._codes, self._holders = table, codes, holders
        self._worker, self._clock, self._wake, self._guarded = worker, clock, wake, guarded
        self._frame_bytes = round(2 * SAMPLE_RATE * scheduler.frame_s)  # s16le
        self._withdrawn = False  # work of others went with that of a request that ended, and must be offered again
        self._outputs: deque[Code2WavOutput] = deque()  # filled by the worker

    def follow(self, sequences: list[Sequence], codes: Tensor) -> None:
        """Have the first sound of sequences made right behind their first frame, which the host need not know for it.

        Shapes: codes [B, Q], on the device; within ``Stream.STARTS``.
        """
        places = [place for place, sequence in enumerate(sequences) if self._may_follow(sequence)]
        mine = [sequences[place] for place in places]
        if not mine:
            return
        try:
            for sequence in mine:
                self._streams.open(sequence.slot, sequence.voice, Stream.STARTS)
            mine_of = codes if len(mine) == len(sequences) else torch.stack([codes[place] for place in places])
            following = self._streams.follow([sequence.slot for sequence in mine], mine_of)
        except Exception:
            log.exception("first sound of %d requests could not follow; the worker makes it", len(mine))
            return
        for sequence, sound in zip(mine, following, strict=True):
            sequence.opened, sequence.following = True, sound

    def _may_follow(self, sequence: Sequence) -> bool:
        table, slot = self._table, sequence.slot
        is_first = not sequence.opened and table.made[slot] == 0 and table.first_chunk[slot] == 1
        # What the worker still makes in this slot belongs to the sequence that had it before.
        return bool(is_first and not table.in_code2wav[slot]) and self._streams.can_follow(sequence.voice)

    def offer(self) -> None:
        """Leave to the worker what is due now, in place of what waited there."""
        self._withdrawn = False
        self._worker.offer(self, self._tasks)

    def offer_again(self) -> None:
        """The same, where an end took away what others had offered."""
        if self._withdrawn:
            self.offer()

    def collect(self) -> Iterator[Code2WavOutput]:
        """What the worker has made since."""
        while self._outputs:
            output = self._outputs.popleft()
            self._table.in_code2wav[output.chunk.slots] = False
            yield output

    @contextmanager
    def silencing(self, sequence: Sequence) -> Iterator[None]:
        """Nothing of a request is heard from now on, and nothing of it begins while its row is given up within."""
        with self._worker.lock:
            sequence.silenced = True
            self._worker.withdraw(self)
            self._withdrawn = True
            yield

    def _tasks(self) -> list[Code2WavTask]:
        """What is due, most urgent first. Under the worker's lock."""
        chunks = self._scheduler.sound(self._table, self._clock(), self.pace)
        return [Code2WavTask((not chunk.is_first, chunk.deadline), partial(self._freeze, chunk)) for chunk in chunks]

    def _freeze(self, chunk: Chunk) -> Callable[[], None]:
        """Copy what a chunk needs, and return its making. Under the worker's lock."""
        # A row that is filled up repeats its last frame.
        own = np.minimum(np.arange(chunk.size), chunk.frames[:, None] - 1)
        at = self._table.sent[chunk.slots][:, None] + own
        codes = self._codes[chunk.slots[:, None], at % BACKLOG]
        sequences = [self._holders[int(slot)] for slot in chunk.slots]
        spent = [spent_from(sequence) - int(first) for sequence, first in zip(sequences, at[:, 0], strict=True)]
        self._table.in_code2wav[chunk.slots] = True
        return partial(self._make, chunk, sequences, codes, spent)

    def _make(self, chunk: Chunk, sequences: list[Sequence], codes: Codes, spent: list[int]) -> None:
        """Decode and hand out at once; ``spent``: from which frame on each row's text is. Thread: worker."""
        sounds: list[SequenceSound] | None = None
        began, stream = self._clock(), Stream.FIRST_SOUND if chunk.is_first else Stream.SOUND
        try:
            with self._device.stream(stream):
                opened = [self._open(sequence) for sequence in sequences]
                wanted = [
                    is_open and sequence.following is None for sequence, is_open in zip(sequences, opened, strict=True)
                ]
                slots = [sequence.slot for sequence, is_wanted in zip(sequences, wanted, strict=True) if is_wanted]
                frames = torch.from_numpy(codes[wanted])
                made = iter(self._streams.decode(slots, frames, stream, at_end=chunk.at_end) if slots else ())
            pcms = [
                self._followed(sequence)
                if sequence.following
                else next(made)
                if sequence.opened
                else GenerationFailed()
                for sequence in sequences
            ]
            own = [row[:size] for row, size in zip(codes, chunk.frames, strict=True)]
            sounds = [self._guard(*row) for row in zip(sequences, own, pcms, spent, strict=True)]
        except Exception:
            log.exception("sound of %d chunks failed", len(sequences))
        for sequence, row, sound in zip(sequences, codes, sounds or [], strict=bool(sounds)):
            with self._worker.lock:  # so that its end cannot be said between these lines
                if sound.error is None and not sequence.silenced:
                    sequence.sink(AudioChunk(pcm=sound.pcm, codes=row[: sound.frames], first_sample=sequence.samples))
                    sequence.samples += len(sound.pcm) // 2
        now = self._clock()
        self.pace.sound_s = (now - began) / int(chunk.frames.sum())
        self._outputs.append(Code2WavOutput(chunk, sequences, sounds, now))
        self._wake()

    @staticmethod
    def _followed(sequence: Sequence) -> bytes | SpeechError:
        """The sound that was begun behind the first frame. Thread: worker."""
        following, sequence.following = sequence.following, None
        assert following is not None
        return following.pcm()

    def _guard(self, sequence: Sequence, codes: Codes, pcm: bytes | SpeechError, spent: int) -> SequenceSound:
        """Cut sound off where it has gone on in circles or in silence for too long after its text. Thread: worker."""
        size, start = len(codes), max(0, spent)
        if isinstance(pcm, SpeechError):
            return SequenceSound(b"", size, error=pcm)
        pcm = pcm[: size * self._frame_bytes]
        if not self._guarded or start >= size:
            return SequenceSound(pcm, size)
        guard = sequence.detector.heard(codes[start:], pcm[start * self._frame_bytes :], True)
        if guard is None:
            return SequenceSound(pcm, size)
        frames = start + sequence.detector.struck + 1
        return SequenceSound(pcm[: frames * self._frame_bytes], frames, guard)

    def _open(self, sequence: Sequence) -> bool:
        """Begin a request's stream of sound if it has none; False where that fails. Thread: worker."""
        if not sequence.opened:
            try:
                self._streams.open(sequence.slot, sequence.voice)
            except Exception:
                log.exception("the stream of request %d could not be opened", sequence.ticket)
                return False
            sequence.opened = True
        return True


def spent_from(sequence: Sequence) -> int:
    """The frame from which on a part's text has been spoken, as far as the number of frames tells."""
    if not sequence.text_stream.by_token or sequence.part is None:
        return sequence.before + sequence.spent_after
    return (
        sequence.before + max(sequence.tokens, spent_after(sequence.part.spoken)) if sequence.part.closed else ENDLESS
    )
