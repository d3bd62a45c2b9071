"""Automatic choice of dtype and quantization for the talker and code predictor.

It chooses the most exact weights that reach real time on this machine. If no weights do, it chooses 8 bits if they are
faster. 4 bits reduce audio quality (docs/checkpoints.md), so they are chosen only if they reach real time.
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
QUANTIZATIONS = (None, Quantization.INT8, Quantization.INT4)  # In order of exactness, the most exact first.
FLOAT16_NAME = "F16"  # Name of the dtype in safetensors.
REAL_TIME = 1.0
# Minimum number of weights per frame for a quantization. Every processor is fast enough for smaller networks.
LARGE = 100_000_000

Pace = tuple[Weights, float]  # Weights, and their real-time factor.


def choose_pace(ladder: Iterable[Pace]) -> Weights:
    """Return the weights to use: the most exact ones that are fast enough.

    Speeds are measured one after another, for the most exact weights first, until one is fast enough.
    """
    slower: list[Pace] = []
    for weights, rtf in ladder:
        if rtf <= REAL_TIME:
            return weights
        slower.append((weights, rtf))
    return min(slower[:2], key=lambda pace: pace[1])[0]


class WeightBits:
    """Choice of weights for each checkpoint by the settings.

    Each model shape is measured once.

    Raises:
        InvalidSetting: The device does not support this quantization, or the dtype does not exist.
    """

    def __init__(self, settings: EngineSettings, device: Device) -> None:
        self._device = device
        self._dtype = settings.dtype
        choose_dtype(settings.dtype, device)
        self._is_open = settings.quantize == AUTO
        # Quantization of all checkpoints. None if it is chosen for each checkpoint or if there is no quantization.
        self.known = None if self._is_open else choose_quantization(settings.quantize, device)
        self.probe = Probe(device, settings.threads, settings.sound_dtype)

    def with_bits(self, config: ModelConfig, bits: Quantization | None, types: Collection[str] = ()) -> Weights:
        """Return dtype and quantization of a checkpoint for a given number of bits.

        A CPU without bfloat16 products stores weights without quantization as float16 and computes in float32:
        published weights are bfloat16 or float16, so this loses nothing and halves the memory traffic of a frame.

        Args:
            types: Dtypes of the tensors in its files, by safetensors' names. Small checkpoints use float16 only if they
                were published in it.
        """
        is_large = frame_reads(config) >= LARGE
        dtype = choose_dtype(self._dtype, self._device, is_large=bits is None and is_large)
        is_whole = bits is None and self._dtype == AUTO and dtype is torch.float32 and can_round(self._device)
        if is_whole and (is_large or set(types) == {FLOAT16_NAME}) and multiplies_float16():
            return dtype, Quantization.FLOAT16
        return dtype, bits

    def paces(self, config: ModelConfig) -> Iterator[Pace]:
        """Yield the speeds of a model shape, the most exact weights first.

        Each speed is measured when it is requested.
        """
        for bits in QUANTIZATIONS:
            weights = self.with_bits(config, bits)
            yield weights, self.probe.rtf(config, weights)

    def choose(self, config: ModelConfig, name: str, types: Collection[str]) -> Weights:
        """Return a checkpoint's weights.

        For a large one, the measurement takes one or two seconds.

        Args:
            types: See `with_bits`.

        Raises:
            CheckpointUnsupported: The checkpoint is already quantized in another way or for another device.
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
        """True if the speed is measured, as it is for large checkpoints on a CPU."""
        return can_round(self._device) and frame_reads(config) >= LARGE


def word_of(weights: Weights) -> str:
    """Return the public name of weights: the quantization if there is one, else the dtype."""
    dtype, quantization = weights
    return quantization or str(dtype).removeprefix("torch.")


def can_round(device: Device) -> bool:
    """True if this device may quantize weights automatically to reach real time."""
    return device.name == "cpu"
