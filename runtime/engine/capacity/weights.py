"""Choice of dtype and bits for the weights of talker and code predictor, if the settings leave it to the machine.

The most exact weights that speak in real time here are taken. If none do, 8 bits are taken if they are faster: 4 bits
cost audio quality (docs/checkpoints.md), which only real time is worth.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator

import torch

from runtime.device import Device
from runtime.device.open_device import choose_dtype, choose_quantization
from runtime.device.quantized import Quantization, multiplies_float16
from runtime.engine.capacity.probe import Probe, Weights, frame_reads
from runtime.model.checkpoint import settle_quantization
from runtime.model.config import ModelConfig
from runtime.settings import EngineSettings

log = logging.getLogger(__name__)

AUTO = "auto"
LADDER = (None, Quantization.INT8, Quantization.INT4)  # The most exact first.
FLOAT16 = "F16"  # As safetensors calls it.
REAL_TIME = 1.0
LARGE = 100_000_000  # Weights per frame; with fewer any processor is fast enough, and nothing is rounded.

Pace = tuple[Weights, float]  # Weights, and seconds of computing per second of speech.


def choose_pace(ladder: Iterable[Pace]) -> Weights:
    """Return the weights to take; less exact ones are not even measured."""
    slower: list[Pace] = []
    for weights, rtf in ladder:
        if rtf <= REAL_TIME:
            return weights
        slower.append((weights, rtf))
    return min(slower[:2], key=lambda pace: pace[1])[0]


class WeightBits:
    """The settings for weights, applied to one checkpoint after the other. Each shape is measured once.

    Raises:
        InvalidSetting: the device has no products with so few bits, or there is no such dtype.
    """

    def __init__(self, settings: EngineSettings, device: Device) -> None:
        self._device = device
        self._dtype = settings.dtype
        choose_dtype(settings.dtype, device)
        self._is_open = settings.quantize == AUTO
        # Bits of every checkpoint; None also if each has its own.
        self.known = None if self._is_open else choose_quantization(settings.quantize, device)
        self.probe = Probe(device, settings.threads, settings.sound_dtype)

    def with_bits(self, config: ModelConfig, bits: Quantization | None, types: Collection[str] = ()) -> Weights:
        """Return the weights that serve a checkpoint with a choice of bits.

        A CPU without bfloat16 products serves unrounded weights as float16 next to float32 rows: published weights are
        bfloat16 or float16, so this loses nothing and halves what a frame reads.

        Args:
            types: of the tensors in its files, in safetensors' words. A small checkpoint's weights are stored as
                float16 only if they were published so.
        """
        is_large = frame_reads(config) >= LARGE
        dtype = choose_dtype(self._dtype, self._device, is_large=bits is None and is_large)
        is_whole = bits is None and self._dtype == AUTO and dtype is torch.float32 and can_round(self._device)
        if is_whole and (is_large or set(types) == {FLOAT16}) and multiplies_float16():
            return dtype, Quantization.FLOAT16
        return dtype, bits

    def paces(self, config: ModelConfig) -> Iterator[Pace]:
        """Yield the paces of a shape, the most exact first; each is measured when it is needed."""
        for bits in LADDER:
            weights = self.with_bits(config, bits)
            yield weights, self.probe.rtf(config, weights)

    def choose(self, config: ModelConfig, name: str, types: Collection[str]) -> Weights:
        """Return a checkpoint's weights; takes a second or two if a large one's bits are to be chosen.

        Args:
            types: as for `with_bits`.

        Raises:
            CheckpointUnsupported: they have been rounded already, otherwise or for another device.
        """
        if config.quantization is not None:
            stored = Quantization(config.quantization)
            return self.with_bits(config, settle_quantization(name, stored, self.known, self._device.name))
        if not (self._is_open and self.is_measured(config)):
            return self.with_bits(config, self.known, types)
        weights = choose_pace(self.paces(config))
        log.info(
            "%s: weights as %s, which takes about %.2f s for a second of speech here, %.2f with what else runs now",
            *(name, word_of(weights), self.probe.rtf(config, weights), self.probe.rtf_now(config, weights)),
        )
        return weights

    def is_measured(self, config: ModelConfig) -> bool:
        """True if the speed of such a checkpoint is measured here: of large ones, on a CPU."""
        return can_round(self._device) and frame_reads(config) >= LARGE


def word_of(weights: Weights) -> str:
    """Return the public name of weights: their bits if they are rounded, else their dtype."""
    dtype, quantization = weights
    return quantization or str(dtype).removeprefix("torch.")


def can_round(device: Device) -> bool:
    """True if weights are rounded there without a setting, if real time needs it."""
    return device.name == "cpu"
