"""What the device was asked for and has not told of yet: frames of many rows, and prompts that are being read.

A row that ends, or begins a new part, may have frames under way that nobody wants any more. They are told apart by
how often the row was given up: what was begun before that is thrown away when it comes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime.device.interface import Moment, Track
from runtime.engine.prompt import Prompt
from runtime.engine.runner import FrameResult, Pending
from runtime.engine.scheduler import Rows, Slots

log = logging.getLogger(__name__)
Expect = Callable[[Track, Moment], None]


@dataclass(frozen=True, slots=True)
class Told:
    """Rows that still wanted it, and what came of it: None where it failed.

    Shapes: slots [B], and every array of ``result``. ``prompt`` is the one that these are the first frames of;
    ``took_s``: seconds from when the device could begin.
    """

    slots: Slots
    result: FrameResult | None
    prompt: Prompt | None
    took_s: float


@dataclass(frozen=True, slots=True)
class _Flight:
    """Shapes: slots, given_up [B]. Without ``pending`` it is a piece of a prompt that no frame follows."""

    slots: Slots
    given_up: NDArray[np.int64]
    moment: Moment
    pending: Pending | None
    prompt: Prompt | None
    began: float


class Underway:
    """Engine thread only.

    Args:
        ahead: frames that may be unread when the next one is begun.
        expect: is told of every moment that somebody should be woken for.
    """

    def __init__(self, rows: Rows, slots: int, ahead: int, expect: Expect, clock: Callable[[], float]) -> None:
        self._rows, self._ahead, self._expect, self._clock = rows, ahead, expect, clock
        self._given_up = np.zeros(slots, np.int64)  # by slot: how often
        self._frames: deque[_Flight] = deque()
        self._starts: deque[_Flight] = deque()
        self._last_told = -np.inf

    @property
    def may_begin(self) -> bool:
        """Whether the next frame may be begun."""
        return len(self._frames) <= self._ahead

    @property
    def pieces(self) -> int:
        """Pieces of prompts that are being read, whoever they were for."""
        return len(self._starts)

    def frame(self, pending: Pending, began: float) -> None:
        """A frame of some rows was begun."""
        self._rows.begun[pending.slots] += 1
        self._add(self._frames, Track.FRAMES, pending.slots, pending.moment, pending, None, began)

    def piece(self, slot: int, moment: Moment, pending: Pending | None, prompt: Prompt) -> None:
        """A piece of a prompt is being read; the last one ends in the row's first frame."""
        slots = np.array([slot])
        if pending is not None:
            self._rows.begun[slot] += 1
        self._add(self._starts, Track.STARTS, slots, moment, pending, prompt, self._clock())

    def give_up(self, slot: int) -> None:
        """Whatever was begun for a row until now is not wanted any more."""
        self._given_up[slot] += 1
        self._rows.begun[slot] = self._rows.made[slot]

    def told(self) -> Iterator[Told]:
        """What the device has told of, in the order of each track."""
        for flights in (self._frames, self._starts):
            while flights:
                flight = flights[0]
                try:
                    if not flight.moment.query():
                        break
                    result = None if flight.pending is None else flight.pending.result()
                    failed = False
                except Exception:
                    log.exception("the device failed at a frame of %d rows", len(flight.slots))
                    result, failed = None, True
                flights.popleft()
                if flight.pending is not None or failed:
                    yield self._wanted(flight, result)

    def wait(self) -> bool:
        """Wait until the device has told of something; False if nothing is under way."""
        flights = self._frames or self._starts
        if flights:
            flights[0].moment.synchronize()
        return bool(flights)

    def _add(
        self,
        flights: deque[_Flight],
        track: Track,
        slots: Slots,
        moment: Moment,
        pending: Pending | None,
        prompt: Prompt | None,
        began: float,
    ) -> None:
        flights.append(_Flight(slots, self._given_up[slots], moment, pending, prompt, began))
        self._expect(track, moment)

    def _wanted(self, flight: _Flight, result: FrameResult | None) -> Told:
        wanted = self._given_up[flight.slots] == flight.given_up
        if result is not None and not wanted.all():
            result = FrameResult(result.codes[wanted], result.ended[wanted], result.finite[wanted])
        now = self._clock()
        took_s = now - max(flight.began, self._last_told)
        if flight.prompt is None:
            self._last_told = now
        return Told(flight.slots[wanted], result, flight.prompt, took_s)
