"""Test doubles that change or record the frames of engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.device import Device
from runtime.engine.engine import Engine
from runtime.engine.execution.model_runner import FrameResult, LaunchedFrame, ModelRunner
from runtime.engine.execution.prompt import Prompt
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.model.layers import Operations

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


def change_frames(engine: Engine, change: Change) -> None:
    """Pass the results of all later frames of an engine through the function ``change``.

    The results of the first frame of each row are not changed.
    """
    for core in engine.registry.cores:
        _change_frames(core.runner, change)


def _change_frames(runner: ModelRunner, change: Change) -> None:
    step, first, frames = runner.step, runner.first, np.zeros(runner.slot_cache.slots, np.int64)

    def counted(slots: Slots, *args: Any) -> LaunchedFrame:
        made = first(slots, *args)
        frames[slots] = 1
        return made

    def changed(slots: Slots, *args: Any) -> LaunchedFrame:
        made = step(slots, *args)
        frames[slots] += 1
        return Changed(made.slots, made.output, made.event, frames[slots], change)

    runner.first = counted  # type: ignore[method-assign, assignment]
    runner.step = changed  # type: ignore[method-assign, assignment]


def end_parts_after(engine: Engine, frames: int | Callable[[int], int]) -> None:
    """Make the talker end every segment after a given number of frames.

    Args:
        frames: Number of frames, or a function that returns it for the index of a segment.
    """
    (checkpoint,) = engine.registry.checkpoints
    eos = checkpoint.config.talker.codec_eos_token_id
    begun = 0

    def ending(slots: Slots, made: Slots, result: FrameResult) -> FrameResult:
        nonlocal begun
        begun += int((made == 2).any())  # Count a segment at its second frame, as `step` returns no first frames.
        ended = made > (frames if isinstance(frames, int) else frames(begun))
        return replace(result, ended=result.ended | ended, codes=np.where(ended[:, None], eos, result.codes))

    change_frames(engine, ending)


def prefer_eos(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the talker give EOS the highest logit in every frame."""
    talker, eos = type(checkpoint.talker), checkpoint.config.talker.codec_eos_token_id
    logits = talker.logits

    def changed(self: Any, hidden: Tensor, ops: Operations) -> Tensor:
        scores = logits(self, hidden, ops)
        scores[:, eos] = 1e4
        return scores

    monkeypatch.setattr(talker, "logits", changed)


@dataclass(frozen=True, slots=True)
class Launches:
    """Launches of all model runners, in order."""

    steps: list[list[int]] = field(default_factory=list)  # Slots of each decode step.
    chunks: list[tuple[int, int, int]] = field(default_factory=list)  # Slot, start and stop of each prefill chunk.

    def frames_of(self, slot: int) -> int:
        """Return the number of decode steps of a slot."""
        return sum(slot in slots for slots in self.steps)


def record_launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    """Record the launches of all model runners from now on."""
    launches, step, prefill_chunks = Launches(), ModelRunner.step, ModelRunner.prefill_chunks

    def recorded_step(self: ModelRunner, slots: Slots, *args: Any) -> LaunchedFrame:
        launched_frame = step(self, slots, *args)
        launches.steps.append(slots.tolist())
        return launched_frame

    def recorded_chunks(self: ModelRunner, prompts: Sequence[tuple[int, Prompt, int]]) -> list[int]:
        stops = prefill_chunks(self, prompts)
        launches.chunks.extend((slot, start, stop) for (slot, _, start), stop in zip(prompts, stops, strict=True))
        return stops

    monkeypatch.setattr(ModelRunner, "step", recorded_step)
    monkeypatch.setattr(ModelRunner, "prefill_chunks", recorded_chunks)
    return launches
