"""Prefill of Code2Wav with the reference frames of a cloned voice.

Reference frames are the codec frames of the voice's reference audio. The Code2Wav state after these frames is computed
once per voice. Every stream of the voice starts with a copy of this state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from runtime.device import Device
from runtime.device.interface import Stream
from runtime.engine.audio.code2wav_graphs import split_frames
from runtime.engine.cloned_voice import VoiceStreamState
from runtime.engine.execution.graphs import Capture, GraphKind, GraphPool
from runtime.engine.execution.slots import copy_to_device
from runtime.model.code2wav_interface import ROW_COLUMNS, Code2WavNetwork

# Numbers of frames that one step processes. Numbers above the network's limit are not used.
STEP_FRAMES = (48, 16, 4, 1)
Run = Callable[[Tensor, Tensor], Tensor]


class _Step:
    """Captured graph of one step."""

    def __init__(self, device: Device, work: Run, frames: int, groups: int) -> None:
        target = device.torch_device
        self._rows = torch.zeros((1, ROW_COLUMNS), device=target, dtype=torch.int32)
        self._codes = torch.zeros((1, frames, groups), device=target, dtype=torch.int32)
        self._graph = device.capture(lambda: work(self._rows, self._codes), Stream.VOICES)

    def run(self, rows: Tensor, codes: Tensor) -> None:
        self._rows.copy_(rows)
        self._codes.copy_(codes)
        self._graph.replay()


class ReferencePrefill:
    """Callable that computes the Code2Wav state after the reference frames of a cloned voice.

    The frames are processed in steps of fixed sizes, so graphs can capture each step.

    Thread: one caller at a time.
    """

    def __init__(self, network: Code2WavNetwork, device: Device, groups: int, graphs: GraphPool) -> None:
        self._network = network
        self._device = device
        self._groups = groups
        self._graphs = graphs
        self._slot_lock = threading.Lock()  # Lock of the slot that is reserved for reference frames.

    def captures(self) -> Iterator[Capture]:
        """Yield the description of the graph of every step.

        A step whose graph cannot be captured runs eagerly.
        """
        for work, size, run in self._works():
            yield Capture(work, (size,), partial(_Step, self._device, run, size, self._groups))

    def warmup_functions(self) -> Iterator[Callable[[], object]]:
        """Yield one function per step that runs the step with dummy inputs.

        `Device.precompile` calls the functions to compile all kernels.
        """
        device = self._device.torch_device
        rows = torch.zeros((1, ROW_COLUMNS), device=device, dtype=torch.int32)
        for _, size, run in self._works():
            yield partial(run, rows, torch.zeros((1, size, self._groups), device=device, dtype=torch.int32))

    def _works(self) -> list[tuple[GraphKind, int, Run]]:
        """Return (kind, number of frames, function) of all work to capture."""
        if (network := self._network.stepped) is None:
            return []
        steps = [
            (GraphKind.REFERENCE, size, network.advance_state)
            for size in STEP_FRAMES
            if size <= network.max_call_frames
        ]
        return [*steps, (GraphKind.REFERENCE_END, network.tail_frames, network.decode)]

    @torch.inference_mode()
    def __call__(self, codes: Tensor) -> VoiceStreamState:
        """Compute the Code2Wav state after reference frames, on the current device stream.

        Shapes: codes [m, Q] int64, the reference frames.
        """
        with self._slot_lock:
            network = self._network.stepped
            captured: list[Any] = [self._graphs.get(work, size) for work, size, _ in self._works()]
            if network is None or None in captured or len(codes) < network.tail_frames:
                state, parity = self._network.state_after(codes)
                return VoiceStreamState(state, parity, len(codes))
            steps: dict[int, _Step] = {size: step for (size,), step in self._graphs.of(GraphKind.REFERENCE).items()}
            sizes = [*split_frames(len(codes) - network.tail_frames, list(steps)), network.tail_frames]
            begins = np.cumsum([0, *sizes[:-1]])
            host = np.stack((np.full(len(sizes), network.reference_slot), np.arange(len(sizes)) % 2, begins), axis=1)
            rows = copy_to_device(self._device.torch_device, host)
            network.reset(network.reference_slot)
            for number, (begin, size) in enumerate(zip(begins.tolist(), sizes, strict=True)):
                step = captured[-1] if number == len(sizes) - 1 else steps[size]
                step.run(rows[number : number + 1], codes[None, begin : begin + size])
            return VoiceStreamState(network.state_of(network.reference_slot), len(sizes) % 2, len(codes))
