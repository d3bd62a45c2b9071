"""Speed of a checkpoint on this processor, measured from its configuration before its weights are here.

The engine's own frame runs with constant weights. To save memory the talker has only a few different layers, which take
turns; together they are larger than a processor's cache. Code2Wav's time follows from two of its residual units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from runtime.device import Device
from runtime.device.cpu import CORES, Threads, shared_out
from runtime.device.huge_pages import gather
from runtime.device.open_device import choose_sound_dtype
from runtime.device.quantized import Quantization, quantized_bytes
from runtime.engine.capacity.timing import ROUNDS, Timing, cpu_threads, measure_round, measure_runs, repeating
from runtime.engine.execution.frame import Frame
from runtime.engine.execution.slots import SlotCache
from runtime.model.code2wav import ResidualUnit, SnakeBeta, StreamState
from runtime.model.config import DecoderConfig, ModelConfig
from runtime.model.layers import RMSNorm
from runtime.model.products import Conv, Linear, Table, lay_out, pack
from runtime.model.talker import Talker
from runtime.model.weights import on_meta
from runtime.shared.speech_rate import FRAME_S

Weights = tuple[torch.dtype, Quantization | None]  # Of talker and code predictor.

COLD_BYTES = 64 * 2**20  # Minimum size of the talker's different layers.
POSITIONS = 256  # Positions that the talker attends over: 20 s of speech.
TEXT_IDS = 8  # Rows of the text table, which a frame reads one of.
WEIGHT = 0.01  # Every weight; no result overflows or is denormal.
# Moments of a frame and channels in the first of Code2Wav's four blocks, which reads, and the third, which computes.
SOUND_UNITS = ((32, 768), (640, 192))
SOUND_FACTOR = 11.0  # Code2Wav's time divided by that of two such units: 10.6 to 11.3 in bfloat16, 11.0 in float32.


@dataclass(slots=True)
class Probe:
    """Speed estimates of one processor. Each shape is measured once.

    Args:
        threads: of frames and of audio, as in the settings; 0: as cores are shared out.
        sound_dtype: the setting for Code2Wav's products.
    """

    device: Device
    threads: int = 0
    sound_dtype: str = "auto"
    _frames: dict[tuple[int, Weights], tuple[Timing, float]] = field(default_factory=dict)
    _sound: dict[torch.dtype, Timing] = field(default_factory=dict)

    def rtf(self, config: ModelConfig, weights: Weights) -> float:
        """Return seconds of computing per second of speech if nothing else runs."""
        frame, slowdown = self.frame_time(config, weights)
        return _rtf(frame.best, self.sound_time(weights).best, slowdown)

    def rtf_now(self, config: ModelConfig, weights: Weights) -> float:
        """Return the same with what else runs at present."""
        frame, slowdown = self.frame_time(config, weights)
        return _rtf(frame.median, self.sound_time(weights).median, slowdown)

    @torch.inference_mode()
    def frame_time(self, config: ModelConfig, weights: Weights) -> tuple[Timing, float]:
        """Measure one request's frame without audio, and how many times longer it takes while audio is computed.

        The factor is infinite if frames and audio share cores.
        """
        key = frame_reads(config), weights
        if key not in self._frames:
            threads = self._thread_counts
            with cpu_threads(threads.frames):
                frame = _frame(config, self.device, *weights)
                if threads.frames + threads.sound > CORES:
                    self._frames[key] = Timing.of(measure_runs(frame)), math.inf
                else:
                    self._frames[key] = self._alone_and_beside(frame, weights)
        return self._frames[key]

    def _alone_and_beside(self, frame: Callable[[], Tensor], weights: Weights) -> tuple[Timing, float]:
        sound = _sound_units(self._sound_dtype(weights))
        alone, beside = [], []
        frame().item()
        for _ in range(ROUNDS):  # In turns, so that other processes slow both.
            alone += measure_round(frame)
            with repeating(sound, self._thread_counts.sound):
                beside += measure_round(frame)
        # This thread's own share of the work also shows how long all of them wait for memory.
        slowdown = min(run.processor for run in beside) / min(run.processor for run in alone)
        return Timing.of(alone), max(1.0, slowdown)

    @torch.inference_mode()
    def sound_time(self, weights: Weights) -> Timing:
        """Measure Code2Wav's time per frame, next to talker and code predictor with such weights."""
        dtype = self._sound_dtype(weights)
        if dtype not in self._sound:
            with cpu_threads(self._thread_counts.sound):
                units = Timing.of(measure_runs(_sound_units(dtype)))
            self._sound[dtype] = Timing(SOUND_FACTOR * units.best, SOUND_FACTOR * units.median)
        return self._sound[dtype]

    def _sound_dtype(self, weights: Weights) -> torch.dtype:
        return choose_sound_dtype(self.sound_dtype, self.device, *weights)

    @property
    def _thread_counts(self) -> Threads:
        return Threads(self.threads, self.threads) if self.threads else shared_out(CORES)


def _rtf(frame: float, sound: float, slowdown: float) -> float:
    return round(together(frame, sound, slowdown) / FRAME_S, 3)


def together(frame: float, sound: float, slowdown: float) -> float:
    """Return seconds per frame and its audio, each on its own core; ``slowdown`` of frames while audio is computed."""
    return max(frame + sound * (1 - 1 / slowdown), sound)


def layer_size(config: DecoderConfig) -> int:
    """Return the number of weights in the products of one decoder layer."""
    heads = 2 * config.num_attention_heads + 2 * config.num_key_value_heads
    return config.hidden_size * (heads * config.head_dim + 3 * config.intermediate_size)


def bytes_per_weight(dtype: torch.dtype, quantization: Quantization | None) -> float:
    """Return the bytes of a weight of the products, with its share of the scales."""
    rows, width = 3072, 1024  # A matrix of the code predictor.
    return dtype.itemsize if quantization is None else quantized_bytes(rows, width, quantization) / (rows * width)


def frame_reads(config: ModelConfig) -> int:
    """Return the number of weights that a frame reads: the talker once, the code predictor for each further code."""
    talker, predictor = config.talker, config.predictor
    one_pass = predictor.num_hidden_layers * layer_size(predictor) + predictor.vocab_size * predictor.hidden_size
    own = talker.num_hidden_layers * layer_size(talker) + talker.vocab_size * talker.hidden_size
    return own + (talker.num_code_groups - 1) * one_pass


def _frame(
    config: ModelConfig, device: Device, dtype: torch.dtype, quantization: Quantization | None
) -> Callable[[], Tensor]:
    """Return the work of a frame of one request."""
    config = replace(config, talker=replace(config.talker, text_vocab_size=TEXT_IDS), tts_pad_token_id=0)
    different = 1 + int(COLD_BYTES / (layer_size(config.talker) * bytes_per_weight(dtype, quantization)))
    with on_meta():
        talker = Talker(config)
    predictor = talker.code_predictor
    _take_turns(talker.model.layers, different)
    _take_turns(predictor.lm_head, 2)
    _take_turns(predictor.model.codec_embedding, 1)
    _fill(talker, dtype, quantization)
    slot_cache = SlotCache(config, 1, POSITIONS, device.torch_device, dtype)
    for cache in (*slot_cache.keys, *slot_cache.values):
        cache.fill_(WEIGHT)
    for level, defaults in zip(slot_cache.levels, (config.talker, config.predictor), strict=True):
        level.top_k.fill_(min(config.generation.top_k or defaults.vocab_size, defaults.vocab_size))
        level.host_top_k.fill(int(level.top_k[0]))
    frame, row, slot = Frame(config, talker, device, slot_cache, dtype, 1, 1), torch.zeros(1, dtype=torch.int64), [0]

    def work() -> Tensor:
        slot_cache.position.fill_(POSITIONS - 1)
        slot_cache.frame.fill_(1)
        return frame.next(row, np.array(slot)).sum()

    return work


def _take_turns(modules: nn.ModuleList, count: int) -> None:
    for index in range(count, len(modules)):
        modules[index] = modules[index % count]


def _sound_units(dtype: torch.dtype) -> Callable[[], Tensor]:
    """Return the work of two of Code2Wav's residual units for one frame."""
    works = [_residual_unit(rows, width, dtype) for rows, width in SOUND_UNITS]
    return lambda: torch.stack([work() for work in works]).sum()


def _residual_unit(rows: int, width: int, dtype: torch.dtype) -> Callable[[], Tensor]:
    with on_meta():
        unit = ResidualUnit(width, dilation=1)
    _fill(unit, torch.float32, None)
    lay_out(unit, dtype)
    unit.conv1.slot = 0
    x = torch.full((1, rows, width), WEIGHT)
    state = StreamState([torch.zeros(1, unit.conv1.left, width)], [], [], torch.zeros(1, dtype=torch.int64))
    return lambda: unit(x, state).sum()


def _fill(network: nn.Module, dtype: torch.dtype, quantization: Quantization | None) -> None:
    """Give the products, norms and tables of a network on the meta device weights, rounded and packed as by a load."""
    for module in network.modules():
        if isinstance(module, Linear | Table | RMSNorm | Conv | SnakeBeta):
            for name, parameter in module.named_parameters(recurse=False):
                filled = nn.Parameter(torch.full(parameter.shape, WEIGHT, dtype=dtype), requires_grad=False)
                setattr(module, name, filled)
        if isinstance(module, Linear) and quantization is not None:
            module.quantize(quantization)
        elif dtype is torch.bfloat16:
            pack(module)
    gather()
