"""Scheduler of Code2Wav, which passes chunks of frames to the Code2Wav worker.

The worker decodes the chunks and emits the audio. Methods run on the engine thread, except methods that are marked
`Thread: worker`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device.interface import Stream
from runtime.engine.audio.code2wav_streams import Code2WavStreams
from runtime.engine.audio.code2wav_worker import Code2WavTask, Code2WavWorker
from runtime.engine.audio.guards import RunawayDetector, estimate_speech_frames
from runtime.engine.execution.slots import UNLIMITED_FRAMES
from runtime.engine.scheduling.scheduler import (
    MAX_BACKLOG_FRAMES,
    Code2WavChunk,
    Scheduler,
    SequenceTable,
    Slots,
    StepDurations,
)
from runtime.engine.scheduling.sequence import Sequence
from runtime.errors import GenerationFailed, SpeechError
from runtime.request import SAMPLE_RATE, Guard

log = logging.getLogger(__name__)
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SequenceAudio:
    """Decoded audio of one sequence from one Code2Wav call.

    The audio is empty after an error, and shortened if runaway speech was detected.
    """

    pcm: bytes
    frames: int  # Number of emitted frames.
    cut_frames: int = 0  # Number of frames that were cut after the emitted frames (see `SegmentRunner.cut_segment`).
    guard: Guard | None = None
    error: SpeechError | None = None


@dataclass(frozen=True, slots=True)
class _ChunkRow:
    """Frames of one sequence in a chunk.

    The row has copies of the values that the engine thread may change while the chunk is decoded.

    Shapes: codes [n, Q].
    """

    sequence: Sequence
    codes: Codes
    first: int  # Index of the first frame in the request.
    spoken: int  # Index, within the chunk, of the first frame after the end of the text.
    detector: RunawayDetector  # Detector of runaway speech for the sequence's segment.


@dataclass(frozen=True, slots=True)
class _Output:
    """Results of a decoded chunk, for each row."""

    slots: Slots
    sequences: list[Sequence]
    audios: list[SequenceAudio]
    paused: list[int]  # For each row, the number of pause samples that were emitted with the chunk.
    at: float


class Code2WavScheduler:
    """Scheduler of Code2Wav calls in one engine core.

    The scheduler stores frames until they are decoded.

    Args:
        sequences: Running sequences by slot.
        guarded: True if runaway speech after the end of the text is cut off.
    """

    def __init__(
        self,
        streams: Code2WavStreams,
        scheduler: Scheduler,
        table: SequenceTable,
        sequences: Mapping[int, Sequence],
        worker: Code2WavWorker,
        clock: Callable[[], float],
        *,
        guarded: bool,
    ) -> None:
        self.pace = StepDurations()
        self._streams = streams
        self.scheduler = scheduler
        self._table = table
        self._sequences = sequences
        self._worker = worker
        self._clock = clock
        self._guarded = guarded
        self._frame_bytes = round(2 * SAMPLE_RATE * scheduler.frame_s)  # Two bytes per sample (16-bit mono).
        # Ring buffer of each slot with the codes of the frames that are not decoded yet.
        self._codes: Codes = np.zeros((len(table.sampled), MAX_BACKLOG_FRAMES, streams.groups), np.int64)
        # True if the end of a request has also withdrawn tasks of other requests, which must then be submitted again.
        self._withdrawn = False
        self._outputs: deque[_Output] = deque()  # Results of the worker that are not processed yet.

    def store_frames(self, slots: Slots, codes: Codes) -> None:
        """Store the new frame of each row in `slots` until the frame is decoded.

        Shapes: slots [B], codes [B, Q].
        """
        self._codes[slots, self._table.record_sampled(slots) % MAX_BACKLOG_FRAMES] = codes

    # --- Methods for the first audio, which is launched right after the first frame.

    def launch_first_audio(self, sequences: list[Sequence], codes: Tensor) -> None:
        """Launch Code2Wav for the first frame of some sequences before the host reads the frame.

        The current device stream must be ``Stream.PROMPTS``.

        Shapes: codes [B, Q], on the device.
        """
        indices = [index for index, sequence in enumerate(sequences) if self._can_launch_first_audio(sequence)]
        followed = [sequences[index] for index in indices]
        if not followed:
            return
        try:
            for sequence in followed:
                self._streams.open(sequence.slot, sequence.voice, Stream.PROMPTS)
            followed_codes = (
                codes if len(followed) == len(sequences) else torch.stack([codes[index] for index in indices])
            )
            first_audios = self._streams.launch_first_audio([sequence.slot for sequence in followed], followed_codes)
        except Exception:
            log.exception("first audio of %d requests could not be launched; the worker decodes it", len(followed))
            return
        for sequence, first_audio in zip(followed, first_audios, strict=True):
            sequence.opened = True
            sequence.first_audio = first_audio

    def _can_launch_first_audio(self, sequence: Sequence) -> bool:
        table, slot = self._table, sequence.slot
        is_first = not sequence.opened and table.sampled[slot] == 0 and table.first_chunk[slot] == 1
        # If a Code2Wav call is still running for this slot, it belongs to an earlier sequence in the slot.
        return bool(is_first and not table.in_code2wav[slot]) and self._streams.can_launch_first_audio(sequence.voice)

    @staticmethod
    def discard_first_audio(sequence: Sequence) -> None:
        """Discard the audio that `launch_first_audio` has launched for a sequence.

        Call this method if the first frame was EOS.
        """
        if sequence.first_audio is not None:
            sequence.first_audio = None
            sequence.opened = False

    def emit_first_audio(self, slots: Slots, codes: Codes) -> None:
        """Emit the audio that `launch_first_audio` has launched for some of the slots.

        Call this method after the launch has finished, before its frames are stored. The engine thread emits this
        audio, because a worker thread would have to wait for the GIL.

        Shapes: slots [B], codes [B, Q].
        """
        rows, first_audios = [], []
        for slot, frame in zip(slots.tolist(), codes, strict=True):
            sequence = self._sequences[slot]
            if sequence.first_audio is not None:
                rows.append(_row_of(sequence, frame[None], 0))
                first_audios.append(sequence.first_audio)
                sequence.first_audio = None
        if rows:
            followed = np.array([row.sequence.slot for row in rows])
            self._table.begin_code2wav(followed)
            self._emit(followed, rows, lambda: [first_audio.pcm() for first_audio in first_audios])

    # --- Methods for tasks that wait in the worker.

    def submit_tasks(self) -> None:
        """Replace the worker's waiting tasks with the chunks that should be decoded now."""
        self._withdrawn = False
        self._worker.replace_tasks(self, self._tasks)

    def resubmit_tasks(self) -> None:
        """Submit the tasks of the other requests again if the end of a request has withdrawn them."""
        if self._withdrawn:
            self.submit_tasks()

    def stop_audio(self, sequence: Sequence) -> None:
        """Stop the audio of a request: emit no more audio, and start no more chunks.

        All waiting tasks are withdrawn, and only the engine thread submits new tasks. Therefore the core may then clear
        the slot's row of the `SequenceTable` and release the slot. A chunk of the request that is already running still
        uses the Code2Wav stream of the slot. Until its result is collected, `in_code2wav` is True, and the next
        sequence in the slot gets no chunk.
        """
        with self._worker.lock:
            sequence.is_audio_stopped = True
            self._worker.withdraw(self)
        self._withdrawn = True

    def collect(self) -> Iterator[tuple[Sequence, SequenceAudio]]:
        """Yield the results of finished Code2Wav calls, one per sequence.

        Results of requests that have ended are dropped. Afterwards, the next chunks are submitted to the worker.
        """
        worked = bool(self._outputs)
        while self._outputs:
            output = self._outputs.popleft()
            self._table.end_code2wav(output.slots)
            rows = zip(output.sequences, output.audios, output.paused, strict=True)
            # Rows are dropped if another sequence has the slot by now.
            current = [row for row in rows if self._sequences.get(row[0].slot) is row[0]]
            slots = np.array([sequence.slot for sequence, _, _ in current], np.int64)
            frames = np.array([audio.frames for _, audio, _ in current], np.int64)
            paused_s = np.array([paused for _, _, paused in current]) / SAMPLE_RATE
            starved = self._table.record_emitted(slots, frames, frames * self.scheduler.frame_s + paused_s, output.at)
            for was_dry, (sequence, audio, _) in zip(starved, current, strict=True):
                sequence.underruns += int(was_dry)
                if sequence.first_audio_at is None:
                    sequence.record_first_audio(output.at)
                yield sequence, audio
        if worked:
            self.submit_tasks()

    # --- Methods of a running task. It starts under the worker's lock and runs on a worker thread.

    def _tasks(self) -> list[Code2WavTask]:
        """Return tasks for the chunks that should be decoded now, the most urgent task first.

        The caller holds the worker's lock.
        """
        chunks = self.scheduler.due_chunks(self._table, self._clock(), self.pace)
        return [Code2WavTask((not chunk.is_urgent, chunk.deadline), partial(self._freeze, chunk)) for chunk in chunks]

    def _freeze(self, chunk: Code2WavChunk) -> Callable[[], None]:
        """Copy the inputs of a chunk and return a function that decodes it.

        The caller holds the worker's lock.
        """
        # A row with fewer frames is padded with copies of its last frame.
        frame_offsets = np.minimum(np.arange(chunk.size), chunk.frames[:, None] - 1)
        at = self._table.emitted[chunk.slots][:, None] + frame_offsets
        codes = self._codes[chunk.slots[:, None], at % MAX_BACKLOG_FRAMES]
        rows = [
            _row_of(self._sequences[slot], row[:size], first)
            for slot, row, size, first in zip(chunk.slots.tolist(), codes, chunk.frames, at[:, 0].tolist(), strict=True)
        ]
        self._table.begin_code2wav(chunk.slots)
        return partial(self.make, chunk, rows, codes)

    def make(self, chunk: Code2WavChunk, rows: list[_ChunkRow], codes: Codes) -> None:
        """Decode a chunk of frames, and emit its audio immediately.

        Shapes: codes [B, size, Q], the codes of all rows with padding.

        Thread: worker.
        """
        began = self._clock()
        self._emit(chunk.slots, rows, lambda: self._decode(chunk, rows, codes))
        self.pace.code2wav_s = (self._clock() - began) / int(chunk.frames.sum())

    def _decode(self, chunk: Code2WavChunk, rows: list[_ChunkRow], codes: Codes) -> list[bytes | SpeechError]:
        """Decode a chunk, and return the audio of every row.

        Thread: worker.
        """
        stream = Stream.FIRST_AUDIO if chunk.is_urgent else Stream.AUDIO
        pcms: dict[int, bytes | SpeechError] = {}
        with self._streams.device.stream(stream):
            indices = [index for index, row in enumerate(rows) if self._open(row.sequence)]
            if indices:
                slots = [rows[index].sequence.slot for index in indices]
                outputs = self._streams.decode(slots, torch.from_numpy(codes[indices]), stream, at_end=chunk.at_end)
                pcms.update(zip(indices, outputs, strict=True))
        return [pcms.get(index, GenerationFailed()) for index in range(len(rows))]

    def _emit(self, slots: Slots, rows: list[_ChunkRow], decode: Callable[[], list[bytes | SpeechError]]) -> None:
        """Emit the audio of a chunk, and store its results for `collect`.

        Args:
            decode: Function that returns the audio of every row.

        Thread: worker or engine.
        """
        try:
            audios = [self._guard(row, pcm) for row, pcm in zip(rows, decode(), strict=True)]
        except Exception:
            log.exception("Code2Wav of %d chunks failed", len(rows))
            audios = [SequenceAudio(b"", len(row.codes), error=GenerationFailed()) for row in rows]
        paused = [0] * len(rows)
        for index, (row, audio) in enumerate(zip(rows, audios, strict=True)):
            # Because of the lock, the request cannot end between the check and the emission of the audio.
            with self._worker.lock:
                if audio.error is None and not row.sequence.is_audio_stopped:
                    paused[index] = row.sequence.emit_audio(
                        audio.pcm, row.codes[: audio.frames], row.first, self._streams.samples_per_frame
                    )
        self._outputs.append(_Output(slots, [row.sequence for row in rows], audios, paused, self._clock()))

    def _open(self, sequence: Sequence) -> bool:
        """Open a sequence's Code2Wav stream if necessary.

        Returns:
            False if the stream cannot be opened.

        Thread: worker.
        """
        if not sequence.opened:
            try:
                self._streams.open(sequence.slot, sequence.voice)
            except Exception:
                log.exception("the stream of request %d could not be opened", sequence.ticket)
                return False
            sequence.opened = True
        return True

    def _guard(self, row: _ChunkRow, pcm: bytes | SpeechError) -> SequenceAudio:
        """Cut audio that is a loop or a long silence after the end of the text.

        Thread: worker or engine.
        """
        size, start = len(row.codes), max(0, row.spoken)
        if isinstance(pcm, SpeechError):
            return SequenceAudio(b"", size, error=pcm)
        pcm = pcm[: size * self._frame_bytes]
        if not self._guarded or start >= size:
            return SequenceAudio(pcm, size)
        guard = row.detector.check_frames(row.codes[start:], pcm[start * self._frame_bytes :])
        if guard is None:
            return SequenceAudio(pcm, size)
        frames = start + row.detector.cut_at + 1
        return SequenceAudio(pcm[: frames * self._frame_bytes], frames, size - frames, guard)


def _row_of(sequence: Sequence, codes: Codes, first: int) -> _ChunkRow:
    return _ChunkRow(sequence, codes, first, estimate_speech_end(sequence) - first, sequence.detector)


def estimate_speech_end(sequence: Sequence) -> int:
    """Estimate the index of the first frame after all text of the current segment is spoken.

    The index counts the frames of all segments. It is UNLIMITED_FRAMES while more text of the segment may arrive.
    """
    if not sequence.text_stream.by_token or sequence.segment is None:
        return sequence.before + sequence.expected_speech_frames
    return (
        sequence.before + max(sequence.tokens, estimate_speech_frames(sequence.segment.spoken))
        if sequence.segment.closed
        else UNLIMITED_FRAMES
    )
