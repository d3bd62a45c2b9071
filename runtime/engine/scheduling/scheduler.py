"""Scheduler: sequences for the next frame, and chunks for the next Code2Wav call. No torch, no clock.

What it knows of every slot lies in arrays, so that a decision costs the same for one row and for sixty-four.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Slots = NDArray[np.int64]

ENDLESS = 2**62  # Frame limit of a text that is complete.
MAX_BACKLOG_FRAMES = 64  # Frames that a row may be ahead of Code2Wav. More frames would not be heard sooner.
MAX_CHUNK_GROWTH = 4  # Maximum ratio between the lengths of two successive chunks.
FRAME_TIME_MARGIN = 3.0  # A frame may take up to 3x the recent time.
YIELD_BUSY_SHARE = 0.5  # Share of busy slots from which a row that is far ahead yields.
FAST_TURN_SHARE = 0.25  # If a turn takes less than this share of a frame's audio, yielding helps no other row.
MAX_TURN_SHARE = 0.75  # Maximum share of a frame's audio in which the next frame and its chunk must be ready.
LOW_BUFFER_S = 0.16  # Rows with more unplayed audio than this may wait.
URGENT_FRAMES = (
    MAX_CHUNK_GROWTH  # Maximum frames of an urgent chunk: the one after a first chunk of one frame is no larger.
)


class SequenceTable:
    """Scheduler's view of every slot. Shapes: every array [S]; times in seconds of the engine's clock."""

    def __init__(self, slots: int) -> None:
        self.speaking = np.zeros(slots, bool)  # Frames may be made.
        self.in_code2wav = np.zeros(slots, bool)  # Its Code2Wav call is running, or the result is on its way back.
        self.ended = np.zeros(slots, bool)  # No frame follows; only audio is left.
        self.begun = np.zeros(slots, np.int64)  # Frames launched.
        self.made = np.zeros(slots, np.int64)  # Frames whose codes are known.
        self.sent = np.zeros(slots, np.int64)  # Frames whose audio was sent.
        self.limit = np.zeros(slots, np.int64)  # Maximum frames in total.
        self.text = np.zeros(slots, np.int64)  # Frames that the text received so far allows.
        self.acknowledged_frames = np.zeros(slots, np.int64)  # Frames whose audio the listener has acknowledged.
        self.has_acks = np.zeros(slots, bool)  # True if the listener acknowledges audio.
        # Time at which the buffer of a listener that plays from the first audio on is empty.
        self.buffer_empty_at = np.zeros(slots)
        self.last_chunk = np.zeros(slots, np.int64)  # Frames of the last chunk; 0 before the first.
        self.first_chunk = np.ones(slots, np.int64)
        self.largest_chunk = np.ones(slots, np.int64)
        self.batch = np.ones(slots, np.int64)  # Maximum chunks of its mode in one Code2Wav call.

    def clear(self, slot: int) -> None:
        """Forget the sequence that had the slot; sound of it that is being made stays at work until it is back."""
        in_code2wav = self.in_code2wav[slot]
        for array in vars(self).values():
            array[slot] = 0
        self.in_code2wav[slot] = in_code2wav

    @property
    def pending(self) -> NDArray[np.int64]:
        """Frames that have no sound yet."""
        return self.made - self.sent


@dataclass(slots=True)
class Pace:
    """Recent durations in seconds; infinite until measured."""

    turn_s: float = np.inf  # Duration of one frame of all rows.
    sound_s: float = np.inf  # Code2Wav, a frame of one row


@dataclass(frozen=True, slots=True)
class SoundChunk:
    """Rows whose next frames are decoded together; ``deadline`` is the first one's.

    Shapes: slots, frames [B]. A row with fewer frames than the others has come to its end, and is filled up.
    ``at_end``: all have, and nothing follows. ``is_urgent``: first chunks, and short ones that
    a listener will want soon.
    """

    slots: Slots
    frames: NDArray[np.int64]
    is_urgent: bool
    at_end: bool
    deadline: float

    @property
    def size(self) -> int:
        """Frames of every row, those that fill it up included."""
        return int(self.frames.max())


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """The decisions of one turn.

    ``batch_fill_ratio`` is for devices on which many rows cost little more than one: the share of all speaking rows
    that a further chunk waits for, so that they are decoded in one call. With 0 no chunk waits, and none is filled up.

    ``first_alone`` is for devices on which frames and sound take processor and interpreter from each other: where there
    is time, no frame that can wait is made while a listener waits for its first sound.
    """

    frame_s: float
    lead_cap_s: float
    reader_frames: int  # Frames that may wait for a slow reader.
    sound_work: int  # Maximum frames of all rows in one Code2Wav call.
    batch_fill_ratio: float = 0.0
    first_alone: bool = False

    def runnable(
        self, table: SequenceTable, now: float, *, is_scarce: bool, yields_to_first_audio: bool = False
    ) -> Slots:
        """Slots whose next frame is to be made: they have text, room and a listener that keeps up.

        Where slots are scarce, a row with more than ``lead_cap_s`` of unplayed sound yields. While a first sound is
        made, patient rows yield: those with more than ``LOW_BUFFER_S``, and those whose first sound it is.
        """
        begun = table.begun
        may = table.speaking & (begun < table.limit) & (begun < table.text) & (begun - table.sent < MAX_BACKLOG_FRAMES)
        may &= ~self.waits_for_reader(table, begun)
        if is_scarce:
            may &= table.buffer_empty_at - now + (begun - table.sent) * self.frame_s <= self.lead_cap_s
        if yields_to_first_audio:
            unheard = (table.made >= np.maximum(1, table.first_chunk)) & (table.last_chunk == 0)
            if unheard.any():
                may &= (table.buffer_empty_at - now <= LOW_BUFFER_S) & ~unheard
        return np.flatnonzero(may)

    def is_decoding_fast(self, pace: Pace) -> bool:
        """True if decoding is fast enough to let rows that are ahead finish and free their slots."""
        return pace.turn_s <= FAST_TURN_SHARE * self.frame_s

    def yields_to_first_audio(self, pace: Pace) -> bool:
        """True if rows may wait for another row's first chunk: a frame and its chunk in sequence are still in time."""
        return self.first_alone and pace.turn_s + pace.sound_s <= MAX_TURN_SHARE * self.frame_s

    def waits_for_reader(self, table: SequenceTable, frames: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Rows that, with so many frames, make no more until more of their sound was taken. Shapes: frames [S]."""
        return table.has_acks & (frames - table.acknowledged_frames >= self.reader_frames)

    def chunk_sizes(self, table: SequenceTable, now: float, pace: Pace) -> NDArray[np.int64]:
        """Frames of every row's next chunk, 0 where none is due.

        Chunks start small, so that the first sound comes at once, and grow while the listener can wait: a chunk is
        no longer than the sound that is still to be played, or is made long before that ends. A row that has run dry
        gets what there is: many small calls would only make a slow machine slower.
        """
        first = table.last_chunk == 0
        wanted = np.minimum(
            np.where(first, table.first_chunk, MAX_CHUNK_GROWTH * table.last_chunk), table.largest_chunk
        )
        wanted = np.minimum(wanted, self.sound_work)
        pending, lead_s = table.pending, table.buffer_empty_at - now
        while True:
            starves = wanted * self.frame_s > lead_s
            if np.isfinite(pace.turn_s + pace.sound_s):
                made_s = np.maximum(wanted - pending, 0) * pace.turn_s + wanted * pace.sound_s
                starves &= FRAME_TIME_MARGIN * made_s >= lead_s
            shrink = ~first & (wanted > 1) & starves & (lead_s > 0)
            if not shrink.any():
                break
            wanted = np.where(shrink, wanted // 2, wanted)
        wanted = np.where(~first & (lead_s <= 0), np.minimum(wanted, np.maximum(pending, 1)), wanted)
        last = np.minimum(pending, np.minimum(table.largest_chunk, self.sound_work))
        size = np.where(pending >= wanted, wanted, np.where(self._at_rest(table), last, 0))
        return np.where(table.in_code2wav | (pending == 0), 0, size)

    def _at_rest(self, table: SequenceTable) -> NDArray[np.bool_]:
        """Rows of which nothing is held back.

        A text that has run dry may stay so for long: what there is of it goes out. So does what a reader must have
        before it can take more.
        """
        at_rest = table.ended | (table.made >= table.text) | (table.made >= table.limit)
        return at_rest | self.waits_for_reader(table, table.made)

    def sound(self, table: SequenceTable, now: float, pace: Pace) -> list[SoundChunk]:
        """Choose the next Code2Wav chunks, most urgent first: first chunks, then the earliest end of a buffer.

        Where many rows cost little more than one, calls are long. The chunk behind a first one has to come before that
        has been heard, and would wait for the call ahead: it is urgent too.
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

    def _gather(self, table: SequenceTable, sizes: NDArray[np.int64], further: NDArray[np.bool_], now: float) -> None:
        """Hold further chunks back until there are enough for one call, and fill up ends that go into another's.

        No row waits that has little to play, whose text has run dry or ended, or that has as much again without sound,
        or as much as there can be: a row that waits makes frames, so that this is asked again. ``sizes`` are changed.
        """
        enough = self.batch_fill_ratio * np.count_nonzero(table.speaking)
        waits = (
            (table.buffer_empty_at - now > LOW_BUFFER_S)
            & ~self._at_rest(table)
            & (table.pending < np.minimum(2 * sizes, MAX_BACKLOG_FRAMES))
        )
        at_end = table.ended & (table.pending <= sizes)
        for size in np.unique(sizes[further & (sizes > 0)])[::-1]:
            members = further & (sizes == size)
            if waits[members].all() and np.count_nonzero(members) < min(enough, self.sound_work // size):
                sizes[members] = 0
            elif not at_end[members].all():
                sizes[further & at_end & (sizes > 0) & (sizes < size)] = size

    def _cut(
        self, table: SequenceTable, sizes: NDArray[np.int64], due: NDArray[np.bool_], *, is_urgent: bool
    ) -> Iterator[SoundChunk]:
        """Rows that are due in calls of one size, none larger than work and mode allow."""
        ordered = np.flatnonzero(due)[np.argsort(table.buffer_empty_at[due], kind="stable")]
        for size in np.unique(sizes[due]):
            members = ordered[sizes[ordered] == size]
            together = max(1, self.sound_work // int(size))
            while len(members):
                count = min(together, int(table.batch[members[0]]))
                part, members = members[:count], members[count:]
                pending = table.pending[part]
                frames = np.minimum(sizes[part], pending)
                at_end = bool((table.ended[part] & (pending == frames)).all())
                yield SoundChunk(part, frames, is_urgent, at_end, float(table.buffer_empty_at[part[0]]))

    def record_sent(self, table: SequenceTable, slots: Slots, size: int | Slots, now: float) -> NDArray[np.bool_]:
        """Write down that sound of ``size`` frames (of each) went out; returns the rows that ran dry before it came."""
        starved = (table.last_chunk[slots] > 0) & (now > table.buffer_empty_at[slots])
        table.buffer_empty_at[slots] = np.maximum(table.buffer_empty_at[slots], now) + size * self.frame_s
        table.sent[slots] += size
        table.last_chunk[slots] = size
        return starved


def frame_limit(room: int, budget: int, asked: int | None) -> int:
    """Frames that a request may take: what it asked for, else its text's budget, and never more than its slot has."""
    return min(room, budget if asked is None else asked)
