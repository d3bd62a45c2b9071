"""Reckons for each published checkpoint what it would take of this machine, and how fast it would speak here.

The speed is an estimate. A processor is given a moment of the engine's own layers in the published shapes
(runtime/engine/probe.py). Of a card it is measured how fast it reads weights and how fast it computes, and a frame's
share of both follows from the checkpoint's size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from runtime import published
from runtime.device import Device, open_device
from runtime.device.open_device import choose_dtype, choose_quantization, choose_sound_dtype
from runtime.device.quantized import Quantization, quantized_bytes
from runtime.engine.frame_shape import FrameShape, Weights
from runtime.engine.memory import PROCESS, memory_of
from runtime.engine.probe import Probe
from runtime.engine.probe_timing import best
from runtime.engine.sizing import RESERVE
from runtime.engine.weight_bits import AUTO, Pace, can_round, choose_pace, paces, weights_of
from runtime.model.config import DecoderConfig
from runtime.published import (
    FRAME_S,
    POSITION,
    PUBLISHED,
    SOUND_NARROWED,
    SOUND_OPERATIONS,
    SPEECH_TOKENIZER,
    TEXT_TABLE,
    Published,
)
from runtime.settings import EngineSettings

WIDTH, ROWS = 1024, 3072  # of a matrix of the code predictor
READ = 192 * 2**20  # bytes of weights in a measurement: more than any cache of a card holds
LAUNCH_S = 1.0e-5  # of a layer on a card, which reads a small layer faster than it begins one
SOUND_ROWS, SOUND_WIDTH = 640, 768  # of a product as Code2Wav's largest


@dataclass(frozen=True, slots=True)
class CardSpeed:
    """What a card does in a second."""

    reads: float  # bytes of weights
    computes: float  # operations of Code2Wav


@dataclass(frozen=True, slots=True)
class OfferedBits:
    """A published checkpoint on this machine with weights of so many bits."""

    weights: str  # as the setting calls it: off, int8 or int4
    memory: int  # bytes of weights, one slot and the process, where it is alone
    rtf: float  # seconds of computing for a second of speech, estimated


@dataclass(frozen=True, slots=True)
class Offer:
    """A published checkpoint on this machine."""

    id: str
    shared: int  # bytes that a second checkpoint does not take again
    bits: tuple[OfferedBits, ...]  # what the device can do, the most exact first
    chosen: str  # of them, by the settings or by this machine's pace


@dataclass(frozen=True, slots=True)
class Outlook:
    """The machine, and all that is published. Bytes are the device's."""

    device: str
    dtype: str
    quantize: str  # what the settings say of the bits of weights
    total: int  # that may be used
    free: int
    offers: tuple[Offer, ...]


def outlook(settings: EngineSettings) -> Outlook:
    """Measure this machine. Takes some seconds beside the imports.

    Raises:
        SetUpError: there is no such device, or it cannot do what the settings say.
    """
    device = open_device(settings.device, eager=True)
    dtype = choose_dtype(settings.dtype, device)
    total, free = memory_of(device)
    on_cpu = device.torch_device.type == "cpu"
    kind = None if settings.quantize == AUTO else choose_quantization(settings.quantize, device)
    if can_round(device):
        by_size = _paces_here(device, settings)
    else:
        by_size = _paces_of_card(measure(device, dtype), (dtype, kind))
    return Outlook(
        device.name,
        str(dtype).removeprefix("torch."),
        settings.quantize,
        total if on_cpu else int(settings.memory_share * total),
        free,
        tuple(_offer(checkpoint, by_size[checkpoint.size], device, settings) for checkpoint in PUBLISHED),
    )


def shape_of(checkpoint: Published) -> FrameShape:
    """The layers of a published checkpoint (docs/model.md 1.2)."""
    predictor = DecoderConfig(num_code_groups=published.PREDICTOR_STEPS + 1)
    wide = 1 if checkpoint.size == "0.6B" else 2
    talker = DecoderConfig(
        hidden_size=wide * predictor.hidden_size,
        intermediate_size=wide * predictor.intermediate_size,
        num_hidden_layers=published.TALKER_LAYERS,
        vocab_size=3072,
    )
    return FrameShape(talker, predictor)


def _paces_here(device: Device, settings: EngineSettings) -> dict[str, tuple[Pace, ...]]:
    """By size: the pace with each kind of weights."""
    probe = Probe(device, settings.threads, settings.sound_dtype)
    shapes = {checkpoint.size: shape_of(checkpoint) for checkpoint in PUBLISHED}
    return {size: tuple(paces(probe, shape, settings.dtype)) for size, shape in shapes.items()}


def _paces_of_card(speed: CardSpeed, weights: Weights) -> dict[str, tuple[Pace, ...]]:
    """The one pace of each size: a card rounds weights where the settings say so, and never by itself."""
    return {checkpoint.size: (Pace(weights[1], card_rtf(checkpoint, speed, weights)),) for checkpoint in PUBLISHED}


def card_rtf(checkpoint: Published, speed: CardSpeed, weights: Weights) -> float:
    """Seconds of computing for a second of speech. Frames and sound share a card's time less than its units."""
    frame = shape_of(checkpoint).reads * bytes_a_weight(*weights) / speed.reads
    sound = SOUND_OPERATIONS / speed.computes
    layers = published.TALKER_LAYERS + published.PREDICTOR_STEPS * published.PREDICTOR_LAYERS
    return round(max(frame + layers * LAUNCH_S, sound) / FRAME_S, 3)


def _offer(checkpoint: Published, ladder: tuple[Pace, ...], device: Device, settings: EngineSettings) -> Offer:
    on_cpu, shape = device.torch_device.type == "cpu", shape_of(checkpoint)
    beside = PROCESS if on_cpu else RESERVE
    shared, bits = [], []
    for pace in ladder:
        weights = weights_of(settings.dtype, device, shape, pace.quantization)
        own = weight_bytes(checkpoint, *weights, on_cpu=on_cpu)
        slot = POSITION * settings.max_model_len * weights[0].itemsize
        shared.append(beside + sound_bytes(device, settings, weights, on_cpu=on_cpu))
        bits.append(OfferedBits(_word(pace.quantization), own + shared[-1] + slot, pace.rtf))
    chosen = _word(choose_pace(iter(ladder)).quantization) if settings.quantize == AUTO else settings.quantize
    return Offer(checkpoint.id, min(shared), tuple(bits), chosen)


def _word(quantization: Quantization | None) -> str:
    return "off" if quantization is None else str(quantization)


def weight_bytes(checkpoint: Published, dtype: torch.dtype, quantization: Quantization | None, *, on_cpu: bool) -> int:
    """Bytes of model.safetensors in the device's memory.

    The products of layers and heads in fewer bits, all else in ``dtype``; on a CPU the text's table stays in its file.
    """
    numbers = checkpoint.parameters - (TEXT_TABLE if on_cpu else 0)
    products = shape_of(checkpoint).products
    return (numbers - products) * dtype.itemsize + int(products * bytes_a_weight(dtype, quantization))


def bytes_a_weight(dtype: torch.dtype, quantization: Quantization | None) -> float:
    """Bytes that a weight of the products takes, with its share of the steps."""
    return dtype.itemsize if quantization is None else quantized_bytes(ROWS, WIDTH, quantization) / (ROWS * WIDTH)


def sound_bytes(device: Device, settings: EngineSettings, weights: Weights, *, on_cpu: bool) -> int:
    """Bytes of the speech tokenizer in the device's memory; on a CPU Code2Wav's products may have fewer bits."""
    whole = torch.float32.itemsize * SPEECH_TOKENIZER
    if not on_cpu:
        return whole
    sound = choose_sound_dtype(settings.sound_dtype, device, *weights)
    return whole - (torch.float32.itemsize - sound.itemsize) * SOUND_NARROWED[str(sound).removeprefix("torch.")]


@torch.inference_mode()
def measure(device: Device, dtype: torch.dtype) -> CardSpeed:
    """How fast a card reads and computes now; the best of a few runs, for others may be at work."""
    where = device.torch_device
    weights = torch.zeros(READ // (ROWS * WIDTH * dtype.itemsize), ROWS, WIDTH, dtype=dtype, device=where)
    row = torch.zeros(1, WIDTH, dtype=dtype, device=where)

    def read() -> Tensor:
        return sum((torch.nn.functional.linear(row, matrix).sum() for matrix in weights), start=row.sum())

    left = torch.zeros(SOUND_ROWS, SOUND_WIDTH, device=where)
    right = torch.zeros(SOUND_WIDTH, SOUND_WIDTH, device=where)
    operations = 2 * SOUND_ROWS * SOUND_WIDTH * SOUND_WIDTH
    return CardSpeed(weights.nbytes / best(read), operations / best(lambda: (left @ right).sum()))
