"""Simulation of the scheduler, its two threads and its clients with a virtual clock."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from runtime.engine.execution.slots import UNLIMITED_FRAMES
from runtime.engine.scheduling.scheduler import Code2WavChunk, Scheduler, SequenceTable, StepDurations

FRAME_S = 0.08


@dataclass(slots=True)
class Listener:
    """Simulated client of one request, which plays the audio in real time.

    Playback starts with the first chunk.
    """

    frames: int
    arrives: float = 0.0
    reads: bool = True  # True if the client reads audio immediately, False if it never reads.
    slot: int = -1
    chunks: list[int] = field(default_factory=list)
    first_audio_at: float | None = None
    buffer_empty_at: float = 0.0
    gap_s: float = 0.0
    ended: float | None = None


@dataclass(slots=True)
class Simulation:
    """Simulated engine with constant costs per frame and per Code2Wav call."""

    scheduler: Scheduler
    table: SequenceTable
    frame_cost: tuple[float, float] = (0.01, 0.002)  # Seconds per frame, and additional seconds per row.
    # Seconds per Code2Wav call, and additional seconds per frame of a row.
    sound_cost: tuple[float, float] = (0.004, 0.008)
    steps: list[float] = field(default_factory=list)  # Additional seconds for each frame, by index.
    pace: StepDurations = field(default_factory=StepDurations)
    prefill_s: float = 0.02
    is_scarce: bool = False
    max_in_flight: int = 0  # Number of frames that may be launched before their results are available.
    now: float = 0.0
    worker_free_at: float = 0.0
    stepped: list[list[int]] = field(default_factory=list)
    device_free_at: float = 0.0
    # End time and slots of each launched frame.
    _begun: deque[tuple[float, NDArray[np.int64]]] = field(default_factory=deque)
    _flying: list[tuple[float, Code2WavChunk]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        slots: int,
        *,
        largest: int = 16,
        work: int = 16,
        lead_cap_s: float = 3.0,
        batch_fill_ratio: float = 0.0,
        first_alone: bool = False,
        **kwargs: object,
    ) -> Simulation:
        table = SequenceTable(slots)
        scheduler = Scheduler(
            frame_s=FRAME_S,
            lead_cap_s=lead_cap_s,
            reader_frames=25,
            sound_work=work,
            batch_fill_ratio=batch_fill_ratio,
            first_alone=first_alone,
        )
        simulation = cls(scheduler, table, **kwargs)  # type: ignore[arg-type]
        table.first_chunk[:], table.largest_chunk[:], table.batch[:] = 1, largest, 4
        return simulation

    def run(self, listeners: list[Listener], until: float = 60.0) -> None:
        """Run the simulation with these clients until a time in seconds.

        The slot of a client is its index in the list.
        """
        waiting = sorted(listeners, key=lambda listener: listener.arrives)
        by_slot: dict[int, Listener] = {}
        for slot, listener in enumerate(listeners):
            listener.slot = slot
        table = self.table
        while self.now < until and (waiting or any(listener.ended is None for listener in by_slot.values())):
            while waiting and waiting[0].arrives <= self.now:
                self._begin(waiting.pop(0), by_slot)
            self._land(by_slot)
            self._fly(by_slot)
            yields_to_first_audio = self.scheduler.yields_to_first_audio(self.pace)
            slots = self.scheduler.runnable(
                table, self.now, is_scarce=self.is_scarce, yields_to_first_audio=yields_to_first_audio
            )
            if len(slots):
                self._step(slots)
                if len(self._begun) <= self.max_in_flight:
                    continue
            elif not self._begun:
                self.now += 0.001
                continue
            made_at, known = self._begun.popleft()
            self.now = max(self.now, made_at)
            table.sampled[known] += 1
            done = known[table.sampled[known] >= table.limit[known]]
            table.ended[done], table.speaking[done] = True, False
            self._land(by_slot)
            self._fly(by_slot)

    def _step(self, slots: NDArray[np.int64]) -> None:
        self.stepped.append(slots.tolist())
        self.table.launched[slots] += 1
        took = self.frame_cost[0] + self.frame_cost[1] * len(slots) + (self.steps.pop(0) if self.steps else 0.0)
        self.pace.step_s = took
        self.device_free_at = max(self.device_free_at, self.now) + took
        self._begun.append((self.device_free_at, slots))

    def _begin(self, one: Listener, by_slot: dict[int, Listener]) -> None:
        self.now += self.prefill_s
        slot, table = one.slot, self.table
        table.limit[slot], table.text_limit[slot], table.buffer_empty_at[slot] = (
            one.frames,
            UNLIMITED_FRAMES,
            one.arrives,
        )
        table.has_acks[slot] = not one.reads
        table.launched[slot] = table.sampled[slot] = 1
        table.speaking[slot] = True
        by_slot[slot] = one

    def _fly(self, by_slot: dict[int, Listener]) -> None:
        """Start the next Code2Wav call with the chunks that can be sent, if the worker is idle."""
        while self.worker_free_at <= self.now:
            chunks = self.scheduler.due_chunks(self.table, self.now, self.pace)
            if not chunks:
                return
            chunk = chunks[0]
            self.table.in_code2wav[chunk.slots] = True
            cost = self.sound_cost[0] + self.sound_cost[1] * chunk.size * len(chunk.slots)
            self.pace.code2wav_s = cost / (chunk.size * len(chunk.slots))
            self.worker_free_at = max(self.worker_free_at, self.now) + cost
            self._flying.append((self.worker_free_at, chunk))

    def _land(self, by_slot: dict[int, Listener]) -> None:
        for landed, chunk in [flight for flight in self._flying if flight[0] <= self.now]:
            self._flying.remove((landed, chunk))
            self.table.in_code2wav[chunk.slots] = False
            self.table.record_emitted(chunk.slots, chunk.frames, chunk.frames * FRAME_S, landed)
            for slot, frames in zip(chunk.slots, chunk.frames.tolist(), strict=True):
                one = by_slot[int(slot)]
                one.chunks.append(frames)
                if one.first_audio_at is None:
                    one.first_audio_at = one.buffer_empty_at = landed
                one.gap_s += max(0.0, landed - one.buffer_empty_at)
                one.buffer_empty_at = max(one.buffer_empty_at, landed) + frames * FRAME_S
                if sum(one.chunks) == one.frames:
                    one.ended = landed


def nobody_waits_for(gap: float) -> float:
    """Return `gap` (seconds between audio chunks), or 0 if it is only a rounding error."""
    return 0.0 if math.isclose(gap, 0.0, abs_tol=1e-9) else gap


def stepped_with(simulation: Simulation, slot: int) -> int:
    """Return the number of simulated batches that contained this slot."""
    return int(np.sum([slot in turn for turn in simulation.stepped]))
