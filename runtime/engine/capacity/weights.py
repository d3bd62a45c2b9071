"""Automatic choice of dtype and quantization for the talker and code predictor."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator

import torch

from runtime.device import Device
from runtime.device.open_device import choose_cache_dtype, choose_dtype, choose_quantization
from runtime.device.quantized import Quantization, supports_float16
from runtime.engine.capacity.probe import Probe, Weights, weights_per_frame
from runtime.model.checkpoints.checkpoint import choose_loaded_quantization
from runtime.model.config import ModelConfig
from runtime.settings import EngineSettings

log = logging.getLogger(__name__)

AUTO = "auto"
# Quantizations from the most to the least precise, where None is no quantization.
QUANTIZATIONS = (None, Quantization.INT8, Quantization.INT4)
FLOAT16_NAME = "F16"  # Name of float16 in safetensors files.
REAL_TIME = 1.0
# Maximum estimated real-time factor of weights that are chosen automatically. The margin is needed because long texts
# are 8 to 40 % slower than the estimate (Zen 4), and the speed of a virtual machine varies by 25 %.
SAFE_RTF = 0.7
# Minimum number of weights that a frame reads for a quantization to be useful. Every CPU is fast enough for smaller
# networks.
LARGE = 100_000_000

WeightsRtf = tuple[Weights, float]  # Weights and real-time factor.


def choose_real_time_weights(ladder: Iterable[WeightsRtf]) -> Weights:
    """Choose the most precise weights that run in real time.

    The first weights with a real-time factor of at most `SAFE_RTF` are chosen, or else the first with at most 1. If no
    weights run in real time, the faster of the first two is chosen, which excludes int4, because int4 reduces audio
    quality (docs/checkpoints.md).

    Args:
        ladder: Weights and real-time factors, the most precise weights first. An iterator may measure each speed when
            it is requested.
    """
    slower: list[WeightsRtf] = []
    for weights, rtf in ladder:
        if rtf <= SAFE_RTF:
            return weights
        slower.append((weights, rtf))
    fast = [weights for weights, rtf in slower if rtf <= REAL_TIME]
    return fast[0] if fast else min(slower[:2], key=lambda pace: pace[1])[0]


class WeightsSelector:
    """Selector of dtype and quantization for each checkpoint, by settings or measured speed.

    Raises:
        InvalidSetting: The device does not support the quantization, or the dtype does not exist.
    """

    def __init__(self, settings: EngineSettings, device: Device) -> None:
        self._device = device
        self._dtype = settings.dtype
        choose_cache_dtype(settings.kv_cache, device, choose_dtype(settings.dtype, device))
        self._is_open = settings.quantize == AUTO
        # Quantization of all checkpoints. None means no quantization, or a separate choice for each checkpoint.
        self.known = None if self._is_open else choose_quantization(settings.quantize, device)
        self.probe = Probe(device, settings.threads, settings.sound_dtype)

    def with_quantization(self, config: ModelConfig, bits: Quantization | None, types: Collection[str] = ()) -> Weights:
        """Return the dtype and quantization of a checkpoint for a quantization setting.

        A CPU without bfloat16 instructions stores unquantized weights as float16 and computes in float32. Float16
        halves the memory traffic of a frame and is exact for the published weights.

        Args:
            bits: Quantization, or None for unquantized weights.
            types: Safetensors dtypes of the tensors in the checkpoint's files. Small checkpoints use float16 only if
                all tensors are float16.
        """
        is_large = weights_per_frame(config) >= LARGE
        dtype = choose_dtype(self._dtype, self._device, is_large=bits is None and is_large)
        is_whole = bits is None and self._dtype == AUTO and dtype is torch.float32 and can_auto_quantize(self._device)
        if is_whole and (is_large or set(types) == {FLOAT16_NAME}) and supports_float16():
            return dtype, Quantization.FLOAT16
        return dtype, bits

    def real_time_factors(self, config: ModelConfig) -> Iterator[WeightsRtf]:
        """Yield weights and real-time factor for a model shape, from most to least precise.

        Each speed is measured when the iterator requests it.
        """
        for bits in QUANTIZATIONS:
            weights = self.with_quantization(config, bits)
            yield weights, self.probe.rtf(config, weights)

    def choose(self, config: ModelConfig, name: str, types: Collection[str]) -> Weights:
        """Choose the dtype and quantization of a checkpoint.

        The measurement of a large checkpoint takes one or two seconds.

        Args:
            name: Name of the checkpoint for messages.
            types: See `with_quantization`.

        Raises:
            CheckpointUnsupported: The stored quantization differs from the settings, or the device does not support it.
        """
        if config.quantization is not None:
            stored = Quantization(config.quantization)
            bits = choose_loaded_quantization(name, stored, self.known, self._device.name)
            return self.with_quantization(config, bits)
        if not (self._is_open and self.is_measured(config)):
            return self.with_quantization(config, self.known, types)
        weights = choose_real_time_weights(self.real_time_factors(config))
        rtf = self.probe.rtf(config, weights)
        log.info("%s: weights as %s; estimated RTF %.2f", name, weights_name(weights), rtf)
        return weights

    def is_measured(self, config: ModelConfig) -> bool:
        """True if the choice is measured, as for large checkpoints on a CPU."""
        return can_auto_quantize(self._device) and weights_per_frame(config) >= LARGE


def weights_name(weights: Weights) -> str:
    """Return the name of the quantization, or of the dtype if the weights are unquantized."""
    dtype, quantization = weights
    return quantization or str(dtype).removeprefix("torch.")


def can_auto_quantize(device: Device) -> bool:
    """True if weights on this device may be quantized automatically to reach real time."""
    return device.name == "cpu"
