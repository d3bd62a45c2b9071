"""Test doubles that change the codes of a frame after the host has copied them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from runtime.device import Device
from runtime.engine.core import EngineCore
from runtime.engine.execution.model_runner import FrameResult, LaunchedFrame, ModelRunner

Slots = NDArray[np.int64]
# Type of the functions that change a frame. The arguments are the slots, their frame counts (including this frame) and
# the result. The return value is the new result.
Change = Callable[[Slots, NDArray[np.int64], FrameResult], FrameResult]


def launched(slots: Slots, result: FrameResult, device: Device) -> LaunchedFrame:
    """Return a launched frame of these slots that already has this result."""
    output = torch.from_numpy(np.column_stack((result.codes, result.ended, result.finite)).astype(np.int64))
    memory = device.host_memory(*output.shape, dtype=torch.int64)
    device.to_host(output, memory)
    return LaunchedFrame(slots, memory, device.record_event())


@dataclass(frozen=True)
class Changed(LaunchedFrame):
    """Launched frame whose result is changed by the function `change` when the host reads it."""

    frames: NDArray[np.int64]
    change: Change

    def result(self) -> FrameResult:
        return self.change(self.slots, self.frames, super().result())


def change_frames(runner: ModelRunner, change: Change) -> None:
    """Pass the results of all later frames of a model runner through the function ``change``.

    The results of the first frame of each row are not changed.
    """
    step, first, frames = runner.step, runner.first, np.zeros(runner.slot_cache.slots, np.int64)

    def counted(slots: Slots, *args: Any) -> LaunchedFrame:
        made = first(slots, *args)
        frames[slots] = 1
        return made

    def changed(slots: Slots) -> LaunchedFrame:
        made = step(slots)
        frames[slots] += 1
        return Changed(made.slots, made.output, made.event, frames[slots], change)

    runner.first = counted  # type: ignore[method-assign, assignment]
    runner.step = changed  # type: ignore[method-assign]


def end_parts_after(core: EngineCore, frames: int | Callable[[int], int]) -> None:
    """Make the talker end every segment after a given number of frames.

    Args:
        frames: Number of frames, or a function that returns it for the index of a segment.
    """
    eos = core.checkpoint.config.talker.codec_eos_token_id
    begun = 0

    def ending(slots: Slots, made: Slots, result: FrameResult) -> FrameResult:
        nonlocal begun
        begun += int((made == 2).any())  # Count a segment at its second frame, as `step` returns no first frames.
        ended = made > (frames if isinstance(frames, int) else frames(begun))
        return replace(result, ended=result.ended | ended, codes=np.where(ended[:, None], eos, result.codes))

    change_frames(core.runner, ending)
