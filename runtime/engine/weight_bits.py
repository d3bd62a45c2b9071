"""Chooses dtype and bits of the weights of talker and code predictor, where the settings leave that to the machine.

The most exact that speaks in real time here is taken. Where none does, it is eight bits if they are faster: four bits
cost sound (docs/checkpoints.md), and are only worth that where speech then comes as fast as it is heard.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch

from runtime.device import Device
from runtime.device.open_device import choose_dtype, choose_quantization
from runtime.device.quantized import Quantization, multiplies_float16
from runtime.engine.frame_shape import FrameShape, Weights
from runtime.engine.probe import Probe
from runtime.model.checkpoint import settle_quantization
from runtime.model.config import ModelConfig
from runtime.published import FRAME_S
from runtime.settings import EngineSettings

log = logging.getLogger(__name__)

AUTO = "auto"
LADDER = (None, Quantization.INT8, Quantization.INT4)  # the most exact first
FLOAT16 = "F16"  # as safetensors calls it
REAL_TIME = 1.0
FEW = 100_000_000  # numbers that a frame reads: below it any processor is in time, and nothing is rounded


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a checkpoint would speak here with so many bits."""

    quantization: Quantization | None
    rtf: float  # seconds of computing for a second of speech


def weights_of(
    word: str,
    device: Device,
    shape: FrameShape,
    quantization: Quantization | None,
    types: Collection[str] = (),
) -> Weights:
    """How the weights of such a checkpoint are served.

    Published ones are bfloat16, or float16. Where a CPU does not multiply bfloat16, float16 stands for it: such weights
    beside float32 rows say what float32 ones say, to the last bits, and are half of what a frame reads.

    Args:
        word: what the settings say of their dtype.
        types: of the tensors of its files, as the format has them. A small checkpoint's weights are only stored in
            float16 if that is how they were published.

    Raises:
        InvalidSetting: no such word.
    """
    is_large = shape.reads >= FEW
    dtype = choose_dtype(word, device, is_large=quantization is None and is_large)
    is_whole = quantization is None and word == AUTO and dtype is torch.float32 and can_round(device)
    if is_whole and (is_large or set(types) == {FLOAT16}) and multiplies_float16():
        return dtype, Quantization.FLOAT16
    return dtype, quantization


def paces(probe: Probe, shape: FrameShape, word: str) -> Iterator[Pace]:
    """The paces of a shape, the most exact first; each is measured when it is asked for. ``word`` as above."""
    for quantization in LADDER:
        yield Pace(quantization, probe.rtf(shape, weights_of(word, probe.device, shape, quantization), FRAME_S))


def choose_pace(ladder: Iterator[Pace]) -> Pace:
    """The one to take; what is faster than the one that is taken is not even measured."""
    slower: list[Pace] = []
    for pace in ladder:
        if pace.rtf <= REAL_TIME:
            return pace
        slower.append(pace)
    return min(slower[:2], key=lambda pace: pace.rtf)


class WeightBits:
    """What the settings say of weights, for one checkpoint after the other. Measures each shape once."""

    def __init__(self, settings: EngineSettings, device: Device) -> None:
        """Check the settings.

        Raises:
            InvalidSetting: the device has no products with so few bits, or there is no such dtype.
        """
        self._device = device
        self._word = settings.dtype
        choose_dtype(settings.dtype, device)
        self._is_open = settings.quantize == AUTO
        self._said = None if self._is_open else choose_quantization(settings.quantize, device)
        self._probe = Probe(device, settings.threads, settings.sound_dtype)

    @property
    def known(self) -> Quantization | None:
        """What holds for every checkpoint; None also where each is another matter."""
        return self._said

    def whole(self, config: ModelConfig) -> torch.dtype:
        """The dtype of a checkpoint whose weights are not rounded."""
        return weights_of(self._word, self._device, FrameShape.of(config), None)[0]

    def of(self, config: ModelConfig, name: str, types: Collection[str]) -> Weights:
        """A checkpoint's weights; takes a second or two where their bits are to be chosen and it is a large one.

        Args:
            types: of the tensors of its files, as the format has them.

        Raises:
            CheckpointUnsupported: they have been rounded already, otherwise or for another device.
        """
        if config.quantization is not None:
            stored = Quantization(config.quantization)
            return self._weights(config, settle_quantization(name, stored, self._said, self._device.name))
        shape = FrameShape.of(config)
        if not self._is_open or not can_round(self._device) or shape.reads < FEW:
            return self._weights(config, self._said, types)
        pace = choose_pace(paces(self._probe, shape, self._word))
        weights = self._weights(config, pace.quantization, types)
        log.info(
            "%s: weights as %s, which takes about %.2f s for a second of speech here, %.2f beside what else runs now",
            *(name, word_of(weights), pace.rtf, self._probe.rtf_now(shape, weights, FRAME_S)),
        )
        return weights

    def _weights(self, config: ModelConfig, quantization: Quantization | None, types: Collection[str] = ()) -> Weights:
        return weights_of(self._word, self._device, FrameShape.of(config), quantization, types)


def word_of(weights: Weights) -> str:
    """The word for weights: their bits where they are rounded, else their dtype."""
    dtype, quantization = weights
    return quantization or str(dtype).removeprefix("torch.")


def can_round(device: Device) -> bool:
    """Whether weights are rounded there unasked, where real time takes that."""
    return device.name == "cpu"
