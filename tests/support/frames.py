"""Frames that tell something else than the networks did, from the moment on that they are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from runtime.device import Device
from runtime.engine.runner import FrameResult, FrameRunner, Pending

Slots = NDArray[np.int64]
# Slots, the number of frames that each has made with this one, what came of it; returns what is told instead.
Change = Callable[[Slots, NDArray[np.int64], FrameResult], FrameResult]


def pending(slots: Slots, result: FrameResult, device: Device) -> Pending:
    """A frame that was made elsewhere, told of as the device tells of its own."""
    told = torch.from_numpy(np.column_stack((result.codes, result.ended, result.finite)).astype(np.int64))
    memory = device.host_memory(*told.shape, dtype=torch.int64)
    device.to_host(told, memory)
    return Pending(slots, memory, device.mark())


@dataclass(frozen=True)
class Changed(Pending):
    """Changed when it is read, and not before: until then nobody may look."""

    frames: NDArray[np.int64]
    change: Change

    def result(self) -> FrameResult:
        return self.change(self.slots, self.frames, super().result())


def change_frames(runner: FrameRunner, change: Change) -> None:
    """Let every frame after a row's first tell what ``change`` makes of it."""
    step = runner.step

    def changed(slots: Slots) -> Pending:
        made = step(slots)
        return Changed(made.slots, made.told, made.moment, runner.arena.host_frame[slots].copy(), change)

    runner.step = changed  # type: ignore[method-assign]
