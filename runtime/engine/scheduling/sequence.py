"""Sequence: the engine's record of one request, from submission to the final event."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from runtime.engine.audio.code2wav_streams import FirstAudio
from runtime.engine.audio.guards import RunawayDetector
from runtime.engine.cloned_voice import ClonedVoice
from runtime.engine.execution.prompt import Prompt
from runtime.engine.execution.slots import SlotInputs
from runtime.engine.scheduling.input_processor import Admission, SegmentPlan
from runtime.engine.scheduling.scheduler import SequenceTable
from runtime.engine.text.text_stream import Segment, TextStream
from runtime.errors import SpeechError
from runtime.request import (
    SAMPLE_RATE,
    AudioChunk,
    Broken,
    Finished,
    Guard,
    RequestStats,
    Sink,
    SpeechRequest,
    StopReason,
)
from runtime.settings import ModeSettings


class SequenceState(Enum):
    """State of a sequence.

    In NO_CHECKPOINT, NO_TEXT, NO_VOICE and NO_SLOT, the sequence waits for the named resource. From PREFILL to DRAIN,
    the sequence has a slot.
    """

    NO_CHECKPOINT = auto()
    NO_TEXT = auto()
    NO_VOICE = auto()
    NO_SLOT = auto()
    PREFILL = auto()  # The prompt of a segment is being prefilled and its first frame is being generated.
    DECODE = auto()  # Further frames may be generated.
    WAITING_FOR_TEXT = auto()  # All text received so far is spoken.
    DRAIN = auto()  # No more frames are generated. Only the remaining audio is emitted.
    ENDED = auto()


@dataclass(slots=True, eq=False)
class Sequence:
    """Record of one request: state, slot, text, audio and statistics.

    Thread: engine, except for groups of fields whose comment names the Code2Wav worker. The lock in these comments is
    `Code2WavWorker.lock`. The worker has at most one chunk of a sequence at a time.
    """

    ticket: int
    request: SpeechRequest
    sink: Sink
    state: SequenceState = SequenceState.NO_CHECKPOINT
    admission: Admission = field(init=False)
    text_stream: TextStream = field(init=False)
    seed: int = field(init=False)
    voice: ClonedVoice | None = None
    position: int = -1  # Position in the waiting queue that was reported last.

    # Slot number, which is also the index in the arrays of the scheduler's table.
    slot: int = -1
    inputs: SlotInputs = field(init=False)
    table: SequenceTable = field(init=False)
    limit: int = 0  # Maximum number of frames of the request.

    # Fields of the current segment. When the worker begins a chunk, it reads `before`, `segment`, `tokens` and
    # `expected_speech_frames`. After the decoding, it uses `detector`. In the meantime, the engine may start the next
    # segment.
    segment: Segment | None = None
    plan: SegmentPlan | None = None
    prompt: Prompt | None = None  # Prompt that is being prefilled, or None.
    prefill_position: int = 0  # Number of positions of the prompt that are prefilled.
    before: int = 0  # Number of frames of all earlier segments.
    tokens: int = 0  # Number of text tokens in the segment.
    expected_speech_frames: int = 0  # The segment's text is assumed to be spoken after this number of frames.
    reported_chars: int = 0  # Length of the text in characters at the last WaitingForText event.
    is_repeat: bool = False  # True if the segment is being generated again.
    detector: RunawayDetector = field(default_factory=RunawayDetector)

    # Fields of the Code2Wav stream. They belong to the engine thread until the row has a frame, and then to the worker.
    opened: bool = False  # True if the slot's Code2Wav stream is open.
    first_audio: FirstAudio | None = None  # Code2Wav work that was launched together with the first frame.
    # Pauses that are not emitted yet: number of frames before the pause, and length of the pause in samples. The engine
    # thread appends a pause before it launches the frames after it. The worker removes a pause under its lock.
    pauses: deque[tuple[int, int]] = field(default_factory=deque)
    # Fields of the emitted audio, which the worker changes under its lock. The engine thread changes them only if no
    # chunk is being decoded. It reads `paused` without the lock, because acknowledgements are only estimates.
    samples: int = 0  # Number of emitted samples.
    paused: int = 0  # Number of emitted samples that belong to pauses.
    # True if no more audio of the slot may be emitted. The engine thread sets this field, and the worker reads it while
    # it holds the lock.
    is_audio_stopped: bool = False

    # Times on the engine's clock in seconds, and statistics.
    arrived_at: float = field(init=False)  # Time at which the request arrived at its checkpoint.
    queued: float = 0.0
    admitted: float = 0.0
    prefilled: float | None = None
    first_audio_at: float | None = None
    segments: int = 0
    repeated: int = 0
    prompt_tokens: int = 0
    underruns: int = 0
    guard: Guard | None = None
    reported_notes: tuple[str, ...] = ()  # Notes that were reported in the event `Started`.
    cut_reason: StopReason | None = None  # Stop reason of the last segment that did not end at EOS.

    def admit(self, admission: Admission, text_stream: TextStream, seed: int, now: float) -> None:
        """Store the results of validating the request."""
        self.admission = admission
        self.text_stream = text_stream
        self.seed = seed
        self.arrived_at = now

    def take_slot(self, slot: int, inputs: SlotInputs, table: SequenceTable, mode: ModeSettings, now: float) -> None:
        """Assign a slot to the sequence, and initialize the slot's row in the scheduler's table."""
        self.slot = slot
        self.inputs = inputs
        self.table = table
        self.admitted = now
        table.begin_row(
            slot,
            arrived_at=self.arrived_at,
            has_acks=self.request.acknowledged,
            first_chunk=self.request.first_chunk_frames or mode.first_chunk_frames,
            largest_chunk=mode.max_chunk_frames,
            batch=mode.sound_batch,
        )

    def emit_audio(self, pcm: bytes, codes: NDArray[np.int64], first: int, samples_per_frame: int) -> int:
        """Emit the audio of the frames from index `first` on, and the pauses between segments.

        The caller must hold the Code2Wav worker's lock.

        Args:
            pcm: Audio of the frames, mono s16le.
            codes: Codes of the frames [n, Q].
            first: Index of the first frame in the request.

        Returns:
            The number of emitted samples that belong to pauses.
        """
        paused, begin = self.paused, 0
        while self.pauses and self.pauses[0][0] < first + len(codes):
            before, samples = self.pauses.popleft()
            end = max(begin, before - first)
            self._emit_samples(pcm, codes, begin, end, 2 * samples_per_frame)
            self.emit_pause(samples, codes[:0])
            begin = end
        self._emit_samples(pcm, codes, begin, len(codes), 2 * samples_per_frame)
        return self.paused - paused

    def _emit_samples(self, pcm: bytes, codes: NDArray[np.int64], begin: int, end: int, frame_bytes: int) -> None:
        if begin < end:
            audio = pcm[begin * frame_bytes : end * frame_bytes]
            self.sink(AudioChunk(pcm=audio, codes=codes[begin:end], first_sample=self.samples))
            self.samples += len(audio) // 2

    def emit_pause(self, samples: int, no_codes: NDArray[np.int64]) -> None:
        """Emit `samples` samples of silence, without frames."""
        self.sink(AudioChunk(pcm=bytes(2 * samples), codes=no_codes, first_sample=self.samples))
        self.samples += samples
        self.paused += samples

    def record_first_audio(self, at: float) -> None:
        """Record the time at which the first audio was emitted."""
        self.first_audio_at = at

    def set_state(self, state: SequenceState) -> None:
        """Set the state, and if the sequence has a slot, update the scheduler's table."""
        self.state = state
        if self.slot >= 0:
            self.update_table()

    def update_table(self) -> None:
        """Write the state and limits of the sequence to its row of the scheduler's table."""
        text_limit: int | None = self.before + self.inputs.text_frames
        if self.state is SequenceState.WAITING_FOR_TEXT:
            # All frames are decoded now, because the next text may arrive much later.
            text_limit = self.sampled_frames
        elif self.state is SequenceState.DRAIN:
            # While a sequence drains, the scheduler ignores the text limit, because `ended` is True.
            text_limit = None
        self.table.update_row(
            self.slot,
            speaking=self.state is SequenceState.DECODE,
            ended=self.state is SequenceState.DRAIN,
            limit=self.limit,
            text_limit=text_limit,
        )

    @property
    def sampled_frames(self) -> int:
        """Return the number of generated frames in all segments."""
        return int(self.table.sampled[self.slot])

    @property
    def stop_reason(self) -> StopReason:
        """Return the reason why the generation of frames ended."""
        return self.cut_reason or StopReason.EOS

    def stats(self, now: float, samples_per_frame: int, frame_s: float) -> RequestStats:
        """Return the request's statistics so far, with times in milliseconds.

        Args:
            now: Time in seconds.
            frame_s: Duration of a frame in seconds.
        """
        admitted = self.admitted or now
        frames = (self.samples - self.paused) // samples_per_frame
        return RequestStats(
            queue_ms=1000 * (admitted - (self.queued or now)),
            prefill_ms=0.0 if self.prefilled is None else 1000 * (self.prefilled - admitted),
            ttfa_ms=None if self.first_audio_at is None else 1000 * (self.first_audio_at - self.arrived_at),
            total_ms=1000 * (now - self.arrived_at),
            prompt_tokens=self.prompt_tokens,
            frames=frames,
            audio_s=frames * frame_s + self.paused / SAMPLE_RATE,
            parts=max(1, self.segments),
            repeated=self.repeated,
            underruns=self.underruns,
            guard=self.guard,
        )

    def emit_final_event(
        self, outcome: StopReason | SpeechError, stats: RequestStats, notes: tuple[str, ...] = ()
    ) -> None:
        """Emit the final event: `Finished` with a stop reason, or `Broken` with an error."""
        self.state = SequenceState.ENDED
        if isinstance(outcome, SpeechError):
            self.sink(Broken(outcome, stats))
        else:
            self.sink(Finished(stop_reason=outcome, stats=stats, notes=notes))

    def describe(self, outcome: StopReason | SpeechError, stats: RequestStats) -> str:
        """Return a log message with the request's outcome and statistics, without its text."""
        word = outcome.code if isinstance(outcome, SpeechError) else outcome
        guard = f" ({self.guard})" if self.guard else ""
        ttfa = "-" if stats.ttfa_ms is None else f"{stats.ttfa_ms:.0f}"
        rtf = "-" if stats.rtf is None else f"{stats.rtf:.2f}"
        return f"{word}{guard}, {stats.frames} frames, ttfa {ttfa} ms, queue {stats.queue_ms:.0f} ms, rtf {rtf}"
