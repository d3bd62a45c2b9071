"""Reckons for each published checkpoint what it would take of this machine, and how fast it would speak here.

The speed is an estimate: how fast the device reads weights and how fast it computes are measured for a moment on
matrices of the published shapes, and a frame's share of both follows from the checkpoint's size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from runtime import published
from runtime.device import Device, open_device
from runtime.device.open_device import choose_dtype
from runtime.engine.memory import PROCESS, memory_of
from runtime.engine.sizing import RESERVE
from runtime.published import FRAME_S, POSITION, PUBLISHED, SOUND_OPERATIONS, SPEECH_TOKENIZER, Published
from runtime.settings import EngineSettings

WIDTH, ROWS = 1024, 3072  # of a matrix of the code predictor
READ = 192 * 2**20  # bytes of weights in a measurement: more than any cache of a processor holds
RUNS = 3
LAUNCH_S = 1.0e-5  # of a layer on a card, which reads a small layer faster than it begins one
SOUND_ROWS, SOUND_WIDTH = 640, 768  # of a product as Code2Wav's largest


@dataclass(frozen=True, slots=True)
class Speed:
    """What a device does in a second."""

    reads: float  # bytes of weights
    computes: float  # operations of Code2Wav


@dataclass(frozen=True, slots=True)
class Offer:
    """A published checkpoint on this machine."""

    id: str
    memory: int  # bytes of weights, one slot and the process, where it is alone
    shared: int  # of them that a second checkpoint does not take again
    rtf: float  # seconds of computing for a second of speech, estimated


@dataclass(frozen=True, slots=True)
class Outlook:
    """The machine, and all that is published. Bytes are the device's."""

    device: str
    dtype: str
    total: int  # that may be used
    free: int
    offers: tuple[Offer, ...]


def outlook(settings: EngineSettings) -> Outlook:
    """Measure this machine. Takes a second or two beside the imports.

    Raises:
        SetUpError: there is no such device.
    """
    device = open_device(settings.device, eager=True)
    dtype = choose_dtype(settings.dtype, device)
    total, free = memory_of(device)
    on_cpu = device.torch_device.type == "cpu"
    speed = measure(device, dtype)
    return Outlook(
        device.name,
        str(dtype).removeprefix("torch."),
        total if on_cpu else int(settings.memory_share * total),
        free,
        tuple(_offer(checkpoint, speed, dtype.itemsize, settings, on_cpu=on_cpu) for checkpoint in PUBLISHED),
    )


def _offer(checkpoint: Published, speed: Speed, element: int, settings: EngineSettings, *, on_cpu: bool) -> Offer:
    shared = 4 * SPEECH_TOKENIZER + (PROCESS if on_cpu else RESERVE)
    slot = POSITION * settings.max_model_len * element
    return Offer(
        checkpoint.id,
        checkpoint.parameters * element + slot + shared,
        shared,
        rtf(checkpoint, speed, element, on_cpu=on_cpu),
    )


def rtf(checkpoint: Published, speed: Speed, element: int, *, on_cpu: bool) -> float:
    """Seconds of computing for a second of speech. Frames and sound share a processor's cores, not a card's time."""
    frame = checkpoint.read_for_a_frame * element / speed.reads
    sound = SOUND_OPERATIONS / speed.computes
    layers = published.TALKER_LAYERS + published.PREDICTOR_STEPS * published.PREDICTOR_LAYERS
    seconds = frame + sound if on_cpu else max(frame + layers * LAUNCH_S, sound)
    return round(seconds / FRAME_S, 3)


@torch.inference_mode()
def measure(device: Device, dtype: torch.dtype) -> Speed:
    """How fast the device reads and computes now; the best of a few runs, for others may be at work."""
    where = device.torch_device
    weights = torch.zeros(READ // (ROWS * WIDTH * dtype.itemsize), ROWS, WIDTH, dtype=dtype, device=where)
    row = torch.zeros(1, WIDTH, dtype=dtype, device=where)

    def read() -> Tensor:
        return sum((torch.nn.functional.linear(row, matrix).sum() for matrix in weights), start=row.sum())

    left = torch.zeros(SOUND_ROWS, SOUND_WIDTH, device=where)
    right = torch.zeros(SOUND_WIDTH, SOUND_WIDTH, device=where)
    operations = 2 * SOUND_ROWS * SOUND_WIDTH * SOUND_WIDTH
    return Speed(weights.nbytes / _best(read), operations / _best(lambda: (left @ right).sum()))


def _best(work: Callable[[], Tensor]) -> float:
    """Seconds of the fastest of some runs; ``item`` waits until a card has done it."""
    work().item()
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        work().item()
        times.append(time.perf_counter() - began)
    return min(times)
