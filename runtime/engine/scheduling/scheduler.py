"""Scheduler that chooses the sequences of each frame and the chunks of each Code2Wav call.

The scheduler uses neither torch nor a clock. The state is in arrays over all slots, so a decision takes the same time
for 1 and for 64 sequences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Slots = NDArray[np.int64]

# Maximum number of frames per row that wait for decoding. A larger number would not make audio available earlier.
MAX_BACKLOG_FRAMES = 64
MAX_CHUNK_GROWTH = 4  # Maximum ratio between the numbers of frames of two successive chunks.
FRAME_TIME_MARGIN = 3.0  # Factor on the time of recent frames, because the next frames may take longer.
YIELD_BUSY_SHARE = 0.5  # Fraction of busy slots above which rows with much unplayed audio pause.
# Rows do not pause if a decode step takes less than this fraction of a frame's audio duration, because a pause would
# not make the other rows faster.
FAST_STEP_SHARE = 0.25
# Maximum time for a decode step and the Code2Wav call of one frame, as a fraction of the duration of the frame's audio.
MAX_STEP_SHARE = 0.75
LOW_BUFFER_S = 0.16  # Seconds of unplayed audio above which a row may be delayed.
URGENT_FRAMES = (
    # Maximum number of frames in an urgent chunk. It allows first chunks of one frame, and second chunks of at most
    # MAX_CHUNK_GROWTH frames.
    MAX_CHUNK_GROWTH
)


class SequenceTable:
    """Scheduling state of all slots.

    Shapes: every array [S]. Times are in seconds of the engine's clock.

    Frames are counted from the first frame of the request, over all its segments. For every slot:

        acknowledged_frames <= emitted <= sampled <= launched
        launched < limit and launched < text_limit      Condition of a launch.
        Sequence.before <= sampled                      Frames of the earlier segments.
        SlotCache.frame = launched - before             Frames of the current segment; `host_frame` is its host copy.

    `acknowledged_frames` may exceed `emitted` until the result of the Code2Wav call is collected. Only the methods of
    this class change the arrays.

    Thread: engine. When the Code2Wav worker begins a chunk, the worker holds its lock, reads `emitted` and calls
    `begin_code2wav`.
    """

    def __init__(self, slots: int) -> None:
        self.speaking = np.zeros(slots, bool)  # True if frames may be generated for the row.
        self.in_code2wav = np.zeros(slots, bool)  # True while a Code2Wav call runs or its result has not been read.
        # True if no more frames follow and only the remaining audio must be emitted.
        self.ended = np.zeros(slots, bool)
        self.launched = np.zeros(slots, np.int64)  # Number of launched frames.
        self.sampled = np.zeros(slots, np.int64)  # Number of frames whose codes are known.
        self.emitted = np.zeros(slots, np.int64)  # Number of frames whose audio was emitted.
        self.limit = np.zeros(slots, np.int64)  # Maximum number of frames.
        self.text_limit = np.zeros(slots, np.int64)  # Number of frames for which enough text has been received.
        self.acknowledged_frames = np.zeros(slots, np.int64)  # Number of frames whose audio was acknowledged.
        self.has_acks = np.zeros(slots, bool)  # True if the listener acknowledges audio.
        # Time at which the listener has played all sent audio, if playback never pauses.
        self.buffer_empty_at = np.zeros(slots)
        self.last_chunk = np.zeros(slots, np.int64)  # Number of frames in the last chunk, or 0 before the first chunk.
        self.first_chunk = np.ones(slots, np.int64)
        self.largest_chunk = np.ones(slots, np.int64)
        self.batch = np.ones(slots, np.int64)  # Maximum rows in one Code2Wav call (a setting of the mode).

    def begin_row(
        self, slot: int, *, arrived_at: float, has_acks: bool, first_chunk: int, largest_chunk: int, batch: int
    ) -> None:
        """Set the values of a request that gets the slot."""
        self.has_acks[slot] = has_acks
        # Until its first audio, a request has its arrival time as its deadline, so earlier requests have priority.
        self.buffer_empty_at[slot] = arrived_at
        self.first_chunk[slot] = first_chunk
        self.largest_chunk[slot] = largest_chunk
        self.batch[slot] = batch

    def update_row(self, slot: int, *, speaking: bool, ended: bool, limit: int, text_limit: int | None) -> None:
        """Set the state and limits of a slot.

        If `text_limit` is None, the text limit does not change.
        """
        self.speaking[slot] = speaking
        self.ended[slot] = ended
        self.limit[slot] = limit
        if text_limit is not None:
            self.text_limit[slot] = text_limit

    def record_launched(self, slots: Slots) -> None:
        """Record the launch of one frame for each of the slots."""
        self.launched[slots] += 1

    def discard_launches(self, slot: int) -> None:
        """Discard the launched frames whose codes are not known."""
        self.launched[slot] = self.sampled[slot]

    def record_sampled(self, slots: Slots) -> NDArray[np.int64]:
        """Record that the codes of one more frame of each of the slots are known.

        Returns:
            Index of the new frame of each slot.

        Shapes: slots and the result [B].
        """
        frames = self.sampled[slots]
        self.sampled[slots] = frames + 1
        return frames

    def discard_pending(self, slot: int) -> None:
        """Discard the frames whose audio was not emitted."""
        self.sampled[slot] = self.emitted[slot]

    def begin_code2wav(self, slots: Slots) -> None:
        """Record that a Code2Wav call with frames of these slots has started."""
        self.in_code2wav[slots] = True

    def end_code2wav(self, slots: Slots) -> None:
        """Record that the result of a Code2Wav call has been collected."""
        self.in_code2wav[slots] = False

    def record_emitted(
        self, slots: Slots, frames: int | Slots, audio_s: float | NDArray[np.floating], now: float
    ) -> NDArray[np.bool_]:
        """Record the emission of audio of each of the slots.

        Args:
            frames: Number of frames of each slot.
            audio_s: Duration of the frames and pauses of each slot in seconds.
            now: Time in seconds.

        Returns:
            Mask of the slots whose listener's buffer was empty before this audio.
        """
        buffer_empty_at = self.buffer_empty_at[slots]
        starved = (self.last_chunk[slots] > 0) & (now > buffer_empty_at)
        self.buffer_empty_at[slots] = np.maximum(buffer_empty_at, now) + audio_s
        self.emitted[slots] += frames
        self.last_chunk[slots] = frames
        return starved

    def skip_frames(self, slot: int, frames: int) -> None:
        """Count frames as emitted, because their audio was cut."""
        self.emitted[slot] += frames

    def record_sent(self, slot: int, frames: int) -> None:
        """Record the number of frames whose audio was sent to the listener."""
        self.acknowledged_frames[slot] = frames

    def record_buffer(self, slot: int, empty_at: float) -> None:
        """Record the time at which a listener's buffer becomes empty, after a playback report."""
        self.buffer_empty_at[slot] = empty_at

    def clear(self, slot: int) -> None:
        """Reset the values of a slot, except `in_code2wav`.

        A running Code2Wav call resets `in_code2wav` when it ends.
        """
        for name, initial in vars(SequenceTable(1)).items():
            if name != "in_code2wav":
                getattr(self, name)[slot] = initial[0]

    @property
    def pending(self) -> NDArray[np.int64]:
        """Return the number of generated frames per slot that Code2Wav has not decoded yet.

        Shapes: [S].
        """
        return self.sampled - self.emitted


@dataclass(slots=True)
class StepDurations:
    """Recent durations of decode steps and Code2Wav calls in seconds.

    A duration is infinite until it is measured.
    """

    step_s: float = np.inf  # Duration of one decode step of the whole batch.
    code2wav_s: float = np.inf  # Duration of the Code2Wav call for one frame of one row.


@dataclass(frozen=True, slots=True)
class Code2WavChunk:
    """Input of one Code2Wav call: slots, and the number of frames of each slot.

    `deadline` is the earliest time at which a listener's buffer becomes empty. `is_urgent` is True for first chunks and
    for short chunks that a listener needs soon. `at_end` is True if this is the last chunk of every sequence. A
    sequence with fewer frames than `size` has no later frames, and its chunk is padded.

    Shapes: slots, frames [B].
    """

    slots: Slots
    frames: NDArray[np.int64]
    is_urgent: bool
    at_end: bool
    deadline: float

    @property
    def size(self) -> int:
        """Return the number of frames that Code2Wav decodes for every slot, including padding."""
        return int(self.frames.max())


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """Policy that selects the sequences of the next frame, and the next Code2Wav chunks.

    `batch_fill_ratio` is for devices on which a large batch costs little more than one sequence. A chunk after the
    first one waits until this fraction of all speaking sequences can be decoded in one call. With 0, chunks neither
    wait nor are padded.

    `min_joining_rows` is the minimum number of speaking sequences for `joins_first_frames`.

    `first_alone` is for devices on which frames and Code2Wav use the same processor. Frames that are not urgent are
    delayed while a listener waits for the first audio.
    """

    frame_s: float
    lead_cap_s: float
    reader_frames: int  # Maximum number of frames without acknowledgement by the client.
    sound_work: int  # Maximum number of frames, summed over all rows, in one Code2Wav call.
    batch_fill_ratio: float = 0.0
    first_alone: bool = False
    min_joining_rows: float = math.inf

    def runnable(
        self, table: SequenceTable, now: float, *, is_scarce: bool, yields_to_first_audio: bool = False
    ) -> Slots:
        """Return the slots of the sequences that take part in the next decode step.

        A sequence takes part if it has text and free positions, and if its client reads fast enough.

        Args:
            is_scarce: True to pause sequences with more than `lead_cap_s` of unplayed audio, because other requests
                need the slots or the compute time.
            yields_to_first_audio: True to pause two kinds of sequences while first audio is decoded: those that wait
                for first audio, and those with more than `LOW_BUFFER_S` of unplayed audio.
        """
        launched = table.launched
        may = (
            table.speaking
            & (launched < table.limit)
            & (launched < table.text_limit)
            & (launched - table.emitted < MAX_BACKLOG_FRAMES)
        )
        may &= ~self.waits_for_reader(table, launched)
        if is_scarce:
            may &= table.buffer_empty_at - now + (launched - table.emitted) * self.frame_s <= self.lead_cap_s
        if yields_to_first_audio:
            unheard = (table.sampled >= table.first_chunk) & (table.last_chunk == 0)
            if unheard.any():
                may &= (table.buffer_empty_at - now <= LOW_BUFFER_S) & ~unheard
        return np.flatnonzero(may)

    def joins_first_frames(self, table: SequenceTable) -> bool:
        """True if prompts and first frames should be part of other sequences' steps.

        A separate first frame is available earlier, but delays the other sequences. If almost all slots are in use, new
        requests would wait longer for a slot than for a decode step.
        """
        return bool(np.count_nonzero(table.speaking) >= self.min_joining_rows)

    def is_decoding_fast(self, pace: StepDurations) -> bool:
        """True if decode steps are so fast that a pause of one sequence would not help others."""
        return pace.step_s <= FAST_STEP_SHARE * self.frame_s

    def yields_to_first_audio(self, pace: StepDurations) -> bool:
        """True if sequences may pause while the first audio of another sequence is decoded.

        This is the case if frames and Code2Wav use the same processor, and a decode step and a Code2Wav call together
        are clearly faster than real time.
        """
        return self.first_alone and pace.step_s + pace.code2wav_s <= MAX_STEP_SHARE * self.frame_s

    def waits_for_reader(self, table: SequenceTable, frames: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a mask of the slots whose client has not acknowledged enough audio.

        If the client acknowledges audio at all, the sequence in such a slot must wait for the client.

        Args:
            frames: Number of frames of each slot to compare with the acknowledged frames [S].
        """
        return table.has_acks & (frames - table.acknowledged_frames >= self.reader_frames)

    def chunk_sizes(self, table: SequenceTable, now: float, pace: StepDurations) -> NDArray[np.int64]:
        """Return the length of each slot's next chunk in frames, or 0 if no chunk is due now.

        The first chunk is small, so that audio starts early. Later chunks grow with the listener's buffer. A chunk is
        not longer than the unplayed audio, unless its decoding will end long before the buffer is empty. If the buffer
        is empty, all frames are in one chunk, because many small calls would slow down a slow machine further.

        Example: the last chunk had 4 frames of 80 ms, so the next chunk may have 16 frames. The listener has 600 ms of
        audio. If a decode step takes 10 ms and Code2Wav 2 ms per frame, 16 frames take 192 ms. The chunk keeps its 16
        frames, because even 3 * 192 ms is less than 600 ms. If the durations are unknown, 16 frames (1280 ms) are
        halved to 4 frames (320 ms).
        """
        first = table.last_chunk == 0
        target = np.minimum(
            np.where(first, table.first_chunk, MAX_CHUNK_GROWTH * table.last_chunk), table.largest_chunk
        )
        target = np.minimum(target, self.sound_work)
        pending, lead_s = table.pending, table.buffer_empty_at - now
        while True:
            starves = target * self.frame_s > lead_s
            if np.isfinite(pace.step_s + pace.code2wav_s):
                ready_s = np.maximum(target - pending, 0) * pace.step_s + target * pace.code2wav_s
                starves &= FRAME_TIME_MARGIN * ready_s >= lead_s
            shrink = ~first & (target > 1) & starves & (lead_s > 0)
            if not shrink.any():
                break
            target = np.where(shrink, target // 2, target)
        target = np.where(~first & (lead_s <= 0), np.minimum(target, np.maximum(pending, 1)), target)
        last = np.minimum(pending, np.minimum(table.largest_chunk, self.sound_work))
        size = np.where(pending >= target, target, np.where(self._is_blocked(table), last, 0))
        return np.where(table.in_code2wav | (pending == 0), 0, size)

    def _is_blocked(self, table: SequenceTable) -> NDArray[np.bool_]:
        """Return a mask of the rows that generate no frame now, whose frames must be decoded.

        Such a row has all its frames, waits for text, or waits for acknowledgements of audio that was not sent yet.
        """
        is_blocked = table.ended | (table.sampled >= table.text_limit) | (table.sampled >= table.limit)
        return is_blocked | self.waits_for_reader(table, table.sampled)

    def due_chunks(self, table: SequenceTable, now: float, pace: StepDurations) -> list[Code2WavChunk]:
        """Return the Code2Wav chunks that should be decoded now, the most urgent chunk first.

        First chunks are the most urgent. The chunks of the other sequences follow in the order in which the listeners'
        buffers become empty. With large batches, a Code2Wav call takes long. Then a short chunk of a sequence with a
        low buffer is also urgent, because the listener needs the chunk before a running call ends.
        """
        sizes, is_urgent = self.chunk_sizes(table, now, pace), table.last_chunk == 0
        if self.batch_fill_ratio:
            self._gather(table, sizes, ~is_urgent, now)
            is_urgent |= (table.buffer_empty_at - now <= LOW_BUFFER_S) & (sizes <= URGENT_FRAMES)
        chunks = [
            chunk
            for kind in (True, False)
            for chunk in self._cut(table, sizes, (is_urgent == kind) & (sizes > 0), is_urgent=kind)
        ]
        return sorted(chunks, key=lambda chunk: (not chunk.is_urgent, chunk.deadline))

    def _gather(self, table: SequenceTable, sizes: NDArray[np.int64], is_later: NDArray[np.bool_], now: float) -> None:
        """Delay later chunks until one call has enough chunks, changing `sizes` in place.

        A row does not wait if its buffer is low, if it has spoken all text received so far, if it has twice the chunk's
        frames, or if its backlog is full. A waiting row continues to generate frames, and the next iteration checks
        again. Final chunks that join a larger chunk size are padded.

        Example: 64 rows speak, and a call should have 1/8 of the rows, 8 rows. 3 rows have chunks of 16 frames and can
        wait, so the 3 chunks are delayed. 8 rows have chunks of 8 frames, so the 8 chunks are decoded. A row that ends
        with 2 frames joins this call and is padded to 8 frames.
        """
        min_rows = self.batch_fill_ratio * np.count_nonzero(table.speaking)
        waits = (
            (table.buffer_empty_at - now > LOW_BUFFER_S)
            & ~self._is_blocked(table)
            & (table.pending < np.minimum(2 * sizes, MAX_BACKLOG_FRAMES))
        )
        at_end = table.ended & (table.pending <= sizes)
        for size in np.unique(sizes[is_later & (sizes > 0)])[::-1]:
            rows = is_later & (sizes == size)
            if waits[rows].all() and np.count_nonzero(rows) < min(min_rows, self.sound_work // size):
                sizes[rows] = 0
            elif not at_end[rows].all():
                sizes[is_later & at_end & (sizes > 0) & (sizes < size)] = size

    def _cut(
        self, table: SequenceTable, sizes: NDArray[np.int64], due: NDArray[np.bool_], *, is_urgent: bool
    ) -> Iterator[Code2WavChunk]:
        """Divide rows into Code2Wav calls of one chunk size, within the limits of device and mode."""
        ordered = np.flatnonzero(due)[np.argsort(table.buffer_empty_at[due], kind="stable")]
        for size in np.unique(sizes[due]):
            rows = ordered[sizes[ordered] == size]
            max_rows = max(1, self.sound_work // int(size))
            while len(rows):
                count = min(max_rows, int(table.batch[rows[0]]))
                part, rows = rows[:count], rows[count:]
                pending = table.pending[part]
                frames = np.minimum(sizes[part], pending)
                at_end = bool((table.ended[part] & (pending == frames)).all())
                yield Code2WavChunk(part, frames, is_urgent, at_end, float(table.buffer_empty_at[part[0]]))


def frame_limit(free_positions: int, budget: int, requested_frames: int | None) -> int:
    """Return the maximum number of frames of a segment.

    The limit is the requested number or else the budget of the text, but at most the number of free positions.
    """
    return min(free_positions, budget if requested_frames is None else requested_frames)
