"""Makes the state of Code2Wav after a voice's reference, where the voice is read and not where its sound is awaited."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from runtime.device import Device
from runtime.device.interface import Stream
from runtime.engine.slots import on_device
from runtime.engine.sound_graphs import pieces
from runtime.engine.voice_cache import VoiceSound
from runtime.model.sound import ROW, SoundNetwork

log = logging.getLogger(__name__)

STEPS = (48, 16, 4, 1)  # frames, as far as the network takes so many


class _Step:
    """A step of one stream as a graph."""

    def __init__(self, device: Device, work: Callable[[Tensor, Tensor], Tensor], frames: int, groups: int) -> None:
        where = device.torch_device
        self._rows = torch.zeros((1, ROW), device=where, dtype=torch.int32)
        self._codes = torch.zeros((1, frames, groups), device=where, dtype=torch.int32)
        self._graph = device.capture(lambda: work(self._rows, self._codes), Stream.VOICES)

    def run(self, rows: Tensor, codes: Tensor) -> None:
        self._rows.copy_(rows)
        self._codes.copy_(codes)
        self._graph.replay()


class ReferenceSound:
    """Goes over references, one at a time. Thread: whichever has a voice to make."""

    def __init__(self, network: SoundNetwork, device: Device, groups: int) -> None:
        self._network, self._device, self._groups = network, device, groups
        self._steps: dict[int, _Step] = {}  # by frames
        self._last: _Step | None = None
        self._turn = threading.Lock()  # there is one slot for it

    @torch.inference_mode()
    def capture(self) -> None:
        """Capture the steps; where that fails, or there are none, the network goes over references as it does."""
        network = self._network.stepped
        if network is None:
            return
        try:
            steps = {size: _Step(self._device, network.move_on, size, self._groups) for size in _steps(network)}
            self._last = _Step(self._device, network.decode, network.tail_frames, self._groups)
            self._steps = steps
        except Exception:
            log.exception("the way over a reference could not be captured: it is gone eagerly")

    def works(self) -> Iterator[Callable[[], object]]:
        """What is captured, over rows and codes that are nobody's."""
        if (network := self._network.stepped) is None:
            return
        where = self._device.torch_device
        rows = torch.zeros((1, ROW), device=where, dtype=torch.int32)
        for work, size in [
            *((network.move_on, size) for size in _steps(network)),
            (network.decode, network.tail_frames),
        ]:
            yield partial(work, rows, torch.zeros((1, size, self._groups), device=where, dtype=torch.int32))

    @torch.inference_mode()
    def __call__(self, codes: Tensor) -> VoiceSound:
        """How a stream goes on after a reference, on the current device stream. Shapes: codes [m, Q] int64."""
        with self._turn:
            network, last = self._network.stepped, self._last
            if network is None or last is None or len(codes) < network.tail_frames:
                state, turn = self._network.after(codes)
                return VoiceSound(state, turn, len(codes))
            sizes = [*pieces(len(codes) - network.tail_frames, list(self._steps)), network.tail_frames]
            begins = np.cumsum([0, *sizes[:-1]])
            host = np.stack((np.full(len(sizes), network.side), np.arange(len(sizes)) % 2, begins), axis=1)
            rows = on_device(self._device.torch_device, host)
            network.reset(network.side)
            for number, (begin, size) in enumerate(zip(begins.tolist(), sizes, strict=True)):
                step = last if number == len(sizes) - 1 else self._steps[size]
                step.run(rows[number : number + 1], codes[None, begin : begin + size])
            return VoiceSound(network.state_of(network.side), len(sizes) % 2, len(codes))


def _steps(network: SoundNetwork) -> list[int]:
    return [size for size in STEPS if size <= network.longest]
