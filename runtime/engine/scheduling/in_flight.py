"""Queues of device launches in flight: decode frames and prefill chunks.

A launch is in flight until the host has read its result. If a sequence ends or starts a new segment, the results of its
launches in flight are discarded. Each slot counts its discards. The result for a slot is dropped if the launch is older
than the slot's last discard.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime.device.interface import Event, Stream
from runtime.engine.execution.model_runner import FrameResult, LaunchedFrame
from runtime.engine.execution.prompt import Prompt
from runtime.engine.scheduling.scheduler import Slots

log = logging.getLogger(__name__)
Expect = Callable[[Stream, Event], None]


@dataclass(frozen=True, slots=True)
class StepOutput:
    """Result of a finished step of the device.

    Slots whose result of this step was discarded are not included. `result` is None if the step failed, or if it was
    the end of a prefill without a first frame. `prompts` contains the prompts that the step has completed, which are
    those of the first slots. `took_s` is the duration of the step on the device in seconds.

    Shapes: slots [B], and every array of `result` [B, ...].
    """

    slots: Slots
    result: FrameResult | None
    has_failed: bool
    is_prefill: bool
    prompts: list[Prompt]
    took_s: float


@dataclass(frozen=True, slots=True)
class _Launch:
    """Launch whose result has not been read.

    Shapes: slots, discarded [B].

    `launched` is None for prefill chunks without first frames. `prompts` contains the prompts that the launch
    completes, which are those of the first slots.
    """

    slots: Slots
    discarded: NDArray[np.int64]
    event: Event
    launched: LaunchedFrame | None
    prompts: list[Prompt]
    began: float


class InFlight:
    """Queues of launches whose results the host has not read, one queue per device stream.

    Thread: engine.

    Args:
        max_in_flight: Maximum number of unread frames at the launch of the next frame.
        expect: Function that is called with every device event that should wake the engine thread.
    """

    def __init__(self, slots: int, max_in_flight: int, expect: Expect, clock: Callable[[], float]) -> None:
        self._max_in_flight = max_in_flight
        self._expect = expect
        self._clock = clock
        self._discarded = np.zeros(slots, np.int64)  # Number of discards of each slot.
        self._frames: deque[_Launch] = deque()
        self._prefills: deque[_Launch] = deque()
        self._last_output = -np.inf

    @property
    def may_launch_step(self) -> bool:
        """True if the number of unread frames allows the launch of another decode step."""
        return len(self._frames) <= self._max_in_flight

    @property
    def since(self) -> float | None:
        """Return the start time of the oldest launch in flight, or None.

        The time is in seconds of the engine's clock.

        Thread: any.
        """
        started_at = []
        for launches in (self._frames, self._prefills):
            with suppress(IndexError):
                started_at.append(launches[0].began)
        return min(started_at, default=None)

    @property
    def is_prefilling(self) -> bool:
        """True if a prefill is in flight, even if its request has ended."""
        return bool(self._prefills)

    def is_prefilling_slot(self, slot: int) -> bool:
        """True if a prefill of a slot is in flight, even if its request has ended."""
        return any(slot in launch.slots for launch in self._prefills)

    def add_launch(
        self,
        stream: Stream,
        slots: Slots,
        event: Event,
        launched: LaunchedFrame | None = None,
        prompts: Sequence[Prompt] = (),
        began: float | None = None,
    ) -> None:
        """Add a launch to the queue of its device stream.

        The launch generates a frame for `slots`, or prefills chunks of their prompts on ``Stream.PROMPTS``.

        Args:
            event: Event after which the results are valid.
            launched: Launched frame, or None for prefill chunks without first frames.
            prompts: Prompts that the launch completes, which are those of the first slots.
            began: Time in seconds at which the device could start, or None for the current time.
        """
        began = self._clock() if began is None else began
        launches = self._frames if stream is Stream.FRAMES else self._prefills
        launches.append(_Launch(slots, self._discarded[slots], event, launched, [*prompts], began))
        self._expect(stream, event)

    def discard_launches(self, slot: int) -> None:
        """Discard the results of all launches in flight for one slot.

        The launches of other slots are not affected.
        """
        self._discarded[slot] += 1

    def outputs(self) -> Iterator[StepOutput]:
        """Yield the results of all finished launches.

        The results of each device stream are in the order of the launches.
        """
        for launches in (self._frames, self._prefills):
            while launches:
                launch = launches[0]
                try:
                    if not launch.event.query():
                        break
                    result = None if launch.launched is None else launch.launched.result()
                    has_failed = False
                except Exception:
                    log.exception("the device failed at a frame of %d rows", len(launch.slots))
                    result, has_failed = None, True
                launches.popleft()
                if result is not None or launch.prompts or has_failed:
                    is_prefill = launches is self._prefills
                    yield self._wanted(launch, result, has_failed=has_failed, is_prefill=is_prefill)

    def wait(self) -> bool:
        """Wait until the device has finished the oldest launch.

        Returns:
            False if no launch is in flight.
        """
        launches = self._frames or self._prefills
        if launches:
            with suppress(Exception):  # The method `outputs` raises the same error and reports it to the requests.
                launches[0].event.synchronize()
        return bool(launches)

    def _wanted(self, launch: _Launch, result: FrameResult | None, *, has_failed: bool, is_prefill: bool) -> StepOutput:
        is_current = self._discarded[launch.slots] == launch.discarded
        if result is not None and not is_current.all():
            result = FrameResult(result.codes[is_current], result.ended[is_current], result.finite[is_current])
        now = self._clock()
        took_s = now - max(launch.began, self._last_output)
        if not is_prefill:
            self._last_output = now
        prompts = [prompt for prompt, is_kept in zip(launch.prompts, is_current, strict=False) if is_kept]
        return StepOutput(launch.slots[is_current], result, has_failed, is_prefill, prompts, took_s)
