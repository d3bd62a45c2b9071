"""From frames to what clients hear: chunks that are due go to the lane, and their sound is handed out there at once.

The engine's thread offers and collects; what says lane runs on the lane's threads.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device import Device
from runtime.device.interface import Track
from runtime.engine.codec import SoundStreams
from runtime.engine.job import Job
from runtime.engine.lane import SoundLane, Work
from runtime.engine.runaway import spent_after
from runtime.engine.scheduler import BACKLOG, ENDLESS, Chunk, Pace, Rows, Scheduler
from runtime.request import SAMPLE_RATE, AudioChunk, Guard

log = logging.getLogger(__name__)
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sound:
    """What the lane made of a row's chunk: None where it is not finite, and fewer frames where a guard struck."""

    pcm: bytes | None
    frames: int
    guard: Guard | None = None


@dataclass(frozen=True, slots=True)
class Sounded:
    """A chunk that is through, row by row; ``sounds`` is None where it failed as a whole."""

    chunk: Chunk
    jobs: list[Job]
    sounds: list[Sound] | None
    at: float


class Sounding:
    """Sound of one station's rows.

    Args:
        codes: of the frames that have no sound yet, a ring a slot, [S, BACKLOG, Q].
        holders: by slot.
        guarded: whether speech that goes on after its text is cut off.
        wake: is called when something can be collected.
    """

    def __init__(
        self,
        device: Device,
        streams: SoundStreams,
        scheduler: Scheduler,
        rows: Rows,
        codes: Codes,
        holders: Mapping[int, Job],
        lane: SoundLane,
        clock: Callable[[], float],
        wake: Callable[[], None],
        *,
        guarded: bool,
    ) -> None:
        self.pace = Pace()
        self._device, self._streams, self._scheduler = device, streams, scheduler
        self._rows, self._codes, self._holders = rows, codes, holders
        self._lane, self._clock, self._wake, self._guarded = lane, clock, wake, guarded
        self._frame_bytes = round(2 * SAMPLE_RATE * scheduler.frame_s)  # s16le
        self._withdrawn = False  # work of others went with that of a request that ended, and must be offered again
        self._sounded: deque[Sounded] = deque()  # filled by the lane

    def follow(self, jobs: Sequence[Job], codes: Tensor) -> None:
        """Have the first sound of who has none made right behind its first frame, which the host need not know for it.

        Shapes: codes [B, Q], on the device; within ``Track.STARTS``.
        """
        places = [place for place, job in enumerate(jobs) if self._may_follow(job)]
        mine = [jobs[place] for place in places]
        if not mine:
            return
        try:
            for job in mine:
                self._streams.open(job.slot, job.voice, Track.STARTS)
            mine_of = codes if len(mine) == len(jobs) else torch.stack([codes[place] for place in places])
            following = self._streams.follow([job.slot for job in mine], mine_of)
        except Exception:
            log.exception("first sound of %d requests could not follow; the lane makes it", len(mine))
            return
        for job, sound in zip(mine, following, strict=True):
            job.opened, job.following = True, sound

    def _may_follow(self, job: Job) -> bool:
        rows, slot = self._rows, job.slot
        is_first = not job.opened and rows.made[slot] == 0 and rows.first_chunk[slot] == 1
        # What the lane still makes in this slot is of who had it before.
        return bool(is_first and not rows.sounding[slot]) and self._streams.can_follow(job.voice)

    def offer(self) -> None:
        """Leave to the lane what is due now, in place of what waited there."""
        self._withdrawn = False
        self._lane.offer(self, self._works)

    def offer_again(self) -> None:
        """The same, where an end took away what others had offered."""
        if self._withdrawn:
            self.offer()

    def collect(self) -> Iterator[Sounded]:
        """What the lane has made since."""
        while self._sounded:
            sounded = self._sounded.popleft()
            self._rows.sounding[sounded.chunk.slots] = False
            yield sounded

    @contextmanager
    def silencing(self, job: Job) -> Iterator[None]:
        """Nothing of a request is heard from now on, and nothing of it begins while its row is given up within."""
        with self._lane.lock:
            job.silenced = True
            self._lane.withdraw(self)
            self._withdrawn = True
            yield

    def _works(self) -> list[Work]:
        """What is due, most urgent first. Under the lane's lock."""
        chunks = self._scheduler.sound(self._rows, self._clock(), self.pace)
        return [Work((not chunk.is_first, chunk.deadline), partial(self._freeze, chunk)) for chunk in chunks]

    def _freeze(self, chunk: Chunk) -> Callable[[], None]:
        """Copy what a chunk needs, and return its making. Under the lane's lock."""
        own = np.minimum(np.arange(chunk.size), chunk.frames[:, None] - 1)  # who is filled up repeats its last frame
        at = self._rows.sent[chunk.slots][:, None] + own
        codes = self._codes[chunk.slots[:, None], at % BACKLOG]
        jobs = [self._holders[int(slot)] for slot in chunk.slots]
        spent = [spent_from(job) - int(first) for job, first in zip(jobs, at[:, 0], strict=True)]
        self._rows.sounding[chunk.slots] = True
        return partial(self._make, chunk, jobs, codes, spent)

    def _make(self, chunk: Chunk, jobs: list[Job], codes: Codes, spent: list[int]) -> None:
        """Decode and hand out at once; ``spent``: from which frame on each row's text is. Thread: lane."""
        sounds: list[Sound] | None = None
        began, track = self._clock(), Track.FIRST_SOUND if chunk.is_first else Track.SOUND
        try:
            with self._device.track(track):
                opened = [self._open(job) for job in jobs]
                wanted = [is_open and job.following is None for job, is_open in zip(jobs, opened, strict=True)]
                slots = [job.slot for job, is_wanted in zip(jobs, wanted, strict=True) if is_wanted]
                frames = torch.from_numpy(codes[wanted])
                made = iter(self._streams.decode(slots, frames, track, at_end=chunk.at_end) if slots else ())
            pcms = [self._followed(job) if job.following else next(made) if job.opened else None for job in jobs]
            own = [row[:size] for row, size in zip(codes, chunk.frames, strict=True)]
            sounds = [self._guard(*row) for row in zip(jobs, own, pcms, spent, strict=True)]
        except Exception:
            log.exception("sound of %d chunks failed", len(jobs))
        for job, row, sound in zip(jobs, codes, sounds or [], strict=bool(sounds)):
            with self._lane.lock:  # so that its end cannot be said between these lines
                if sound.pcm is not None and not job.silenced:
                    job.sink(AudioChunk(pcm=sound.pcm, codes=row[: sound.frames], first_sample=job.samples))
                    job.samples += len(sound.pcm) // 2
        now = self._clock()
        self.pace.sound_s = (now - began) / int(chunk.frames.sum())
        self._sounded.append(Sounded(chunk, jobs, sounds, now))
        self._wake()

    @staticmethod
    def _followed(job: Job) -> bytes | None:
        """The sound that was begun behind the first frame. Thread: lane."""
        following, job.following = job.following, None
        assert following is not None
        return following.pcm()

    def _guard(self, job: Job, codes: Codes, pcm: bytes | None, spent: int) -> Sound:
        """Cut sound off where it has gone on in circles or in silence for too long after its text. Thread: lane."""
        size, start = len(codes), max(0, spent)
        pcm = pcm and pcm[: size * self._frame_bytes]
        if pcm is None or not self._guarded or start >= size:
            return Sound(pcm, size)
        guard = job.watch.heard(codes[start:], pcm[start * self._frame_bytes :], True)
        if guard is None:
            return Sound(pcm, size)
        frames = start + job.watch.struck + 1
        return Sound(pcm[: frames * self._frame_bytes], frames, guard)

    def _open(self, job: Job) -> bool:
        """Begin a request's stream of sound if it has none; False where that fails. Thread: lane."""
        if not job.opened:
            try:
                self._streams.open(job.slot, job.voice)
            except Exception:
                log.exception("the stream of request %d could not be opened", job.ticket)
                return False
            job.opened = True
        return True


def spent_from(job: Job) -> int:
    """The frame from which on a part's text has been spoken, as far as the number of frames tells."""
    if not job.feed.by_token:
        return job.before + job.spent_after
    return job.before + max(job.tokens, spent_after(job.feed.spoken)) if job.feed.closed else ENDLESS
