"""Speed measurement of a checkpoint on this CPU, without the checkpoint's weights.

The engine's frame code runs with constant weights. To save memory, the talker has only a few distinct layers, which are
used several times per frame. The distinct layers are larger than the CPU's cache, so weights are read from memory as in
a real frame. Code2Wav's time is estimated from two residual units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from runtime.device import Device, native
from runtime.device.cpu import CORE_COUNT, ThreadCounts, split_cores
from runtime.device.huge_pages import move_to_huge_pages
from runtime.device.open_device import choose_code2wav_dtype
from runtime.device.quantized import Quantization, quantized_bytes
from runtime.engine.capacity.timing import (
    TIMED_ROUNDS,
    cpu_threads,
    fastest,
    measure_round,
    measure_runs,
    repeat_in_background,
)
from runtime.engine.execution.frame import Frame
from runtime.engine.execution.slots import SlotCache
from runtime.model.checkpoints.weights import on_meta
from runtime.model.code2wav import ResidualUnit, SnakeBeta, StreamState
from runtime.model.config import DecoderConfig, ModelConfig
from runtime.model.layers import RMSNorm
from runtime.model.products import Conv, Linear, MappedEmbedding, lay_out, pack
from runtime.model.talker import Talker
from runtime.shared.text.speech_rate import FRAME_S

Weights = tuple[torch.dtype, Quantization | None]  # Dtype and quantization of the talker and code predictor.

# Minimum total bytes of the talker's layers in a measurement. They must not fit into the cache.
COLD_BYTES = 64 * 2**20
ATTENDED_POSITIONS = 256  # Number of positions to which the talker attends in a measurement: 20 s of speech.
TEXT_TABLE_ROWS = 8  # Number of rows of the text embedding table in a measurement. A frame reads only one row.
WEIGHT_VALUE = 0.01  # Value of every weight in a measurement. It avoids an overflow and slow denormal numbers.
# Time steps per frame and channels of the two Code2Wav blocks that are measured. The first of the four blocks is
# limited by memory and the third by computation.
SOUND_UNITS = ((32, 768), (640, 192))
# Time of the whole Code2Wav network divided by the time of the two measured blocks, if both use torch operations.
# Measured ratios are 10.6 to 11.3.
CODE2WAV_TIME_RATIO = 11.0
# Ratio as in CODE2WAV_TIME_RATIO, but with the whole network in C++, and with torch's SnakeBeta in the two blocks.
# Measured ratios are 4.2 to 6.4.
NATIVE_TIME_RATIO = 5.3


@dataclass(slots=True)
class Probe:
    """Speed measurements on this CPU, cached by model shape and dtype of the weights.

    Args:
        threads: Number of threads for frames and also for audio, or 0 for the default division of the cores.
        code2wav_dtype: Dtype setting for Code2Wav's matrix products.
    """

    device: Device
    threads: int = 0
    code2wav_dtype: str = "auto"
    _frames: dict[tuple[int, Weights], tuple[float, float]] = field(default_factory=dict)
    _code2wav_timings: dict[torch.dtype, float] = field(default_factory=dict)

    def rtf(self, config: ModelConfig, weights: Weights) -> float:
        """Return seconds of compute per second of speech on an otherwise idle machine."""
        frame, slowdown = self.frame_time(config, weights)
        return round(parallel_frame_time(frame, self.code2wav_time(weights), slowdown) / FRAME_S, 3)

    @torch.inference_mode()
    def frame_time(self, config: ModelConfig, weights: Weights) -> tuple[float, float]:
        """Return the seconds of a frame without audio, and its slowdown while audio is computed.

        Both are measured on this CPU. The slowdown is a factor. It is infinite if frames and audio share cores.
        """
        key, threads = (weights_per_frame(config), weights), self._thread_counts
        if key not in self._frames:
            with cpu_threads(threads.frames):
                frame, solo, batched = _frame(config, self.device, *weights), [], []
                shares_cores = threads.frames + threads.sound > CORE_COUNT
                code2wav = None if shares_cores else _sound_units(self._code2wav_dtype(weights))
                frame().item()
                # Rounds without and with audio alternate, so that other processes affect both equally.
                for _ in range(TIMED_ROUNDS):
                    solo += measure_round(frame)
                    if code2wav is not None:
                        with repeat_in_background(code2wav, threads.sound):
                            batched += measure_round(frame)
                # All threads wait for the same memory, so this thread's CPU time shows the slowdown of all threads.
                slowdown = math.inf
                if batched:
                    slowdown = min(run.processor for run in batched) / min(run.processor for run in solo)
                self._frames[key] = fastest(solo), max(1.0, slowdown)
        return self._frames[key]

    @torch.inference_mode()
    def code2wav_time(self, weights: Weights) -> float:
        """Return the measured seconds that Code2Wav needs per frame on this CPU.

        The setting `code2wav_dtype` and the talker's `weights` determine the dtype of the measured products.
        """
        dtype = self._code2wav_dtype(weights)
        if dtype not in self._code2wav_timings:
            with cpu_threads(self._thread_counts.sound):
                units = fastest(measure_runs(_sound_units(dtype)))
            ratio = NATIVE_TIME_RATIO if native.supports_convolution(dtype) else CODE2WAV_TIME_RATIO
            self._code2wav_timings[dtype] = ratio * units
        return self._code2wav_timings[dtype]

    def _code2wav_dtype(self, weights: Weights) -> torch.dtype:
        return choose_code2wav_dtype(self.code2wav_dtype, self.device, *weights)

    @property
    def _thread_counts(self) -> ThreadCounts:
        return ThreadCounts(self.threads, self.threads) if self.threads else split_cores(CORE_COUNT)


def parallel_frame_time(frame: float, sound: float, slowdown: float) -> float:
    """Return the seconds per frame if different cores compute frames and audio in parallel.

    Args:
        frame: Seconds per frame without audio.
        sound: Seconds for the audio of a frame.
        slowdown: Factor by which frames are slower while audio is computed.
    """
    return max(frame + sound * (1 - 1 / slowdown), sound)


def layer_size(config: DecoderConfig) -> int:
    """Return the number of weights in the matrix products of one decoder layer."""
    heads = 2 * config.num_attention_heads + 2 * config.num_key_value_heads
    return config.hidden_size * (heads * config.head_dim + 3 * config.intermediate_size)


def bytes_per_weight(dtype: torch.dtype, quantization: Quantization | None) -> float:
    """Return the bytes per weight in matrix products, including the scales of quantization."""
    rows, width = 3072, 1024  # Number of rows and columns of a matrix of the code predictor.
    return dtype.itemsize if quantization is None else quantized_bytes(rows, width, quantization) / (rows * width)


def weights_per_frame(config: ModelConfig) -> int:
    """Return the number of weights that a frame reads from memory.

    A frame reads the talker once, and the code predictor once per code except code 0.
    """
    talker, predictor = config.talker, config.predictor
    predictor_pass = predictor.num_hidden_layers * layer_size(predictor) + predictor.vocab_size * predictor.hidden_size
    talker_pass = talker.num_hidden_layers * layer_size(talker) + talker.vocab_size * talker.hidden_size
    return talker_pass + (talker.num_code_groups - 1) * predictor_pass


def _frame(
    config: ModelConfig, device: Device, dtype: torch.dtype, quantization: Quantization | None
) -> Callable[[], Tensor]:
    """Return a function that generates one frame of one request."""
    config = replace(config, talker=replace(config.talker, text_vocab_size=TEXT_TABLE_ROWS), tts_pad_token_id=0)
    different = 1 + int(COLD_BYTES / (layer_size(config.talker) * bytes_per_weight(dtype, quantization)))
    with on_meta():
        talker = Talker(config)
    predictor = talker.code_predictor
    _take_turns(talker.model.layers, different)
    _take_turns(predictor.lm_head, 2)
    _take_turns(predictor.model.codec_embedding, 1)
    _fill(talker, dtype, quantization)
    slot_cache = SlotCache(config, 1, ATTENDED_POSITIONS, device.torch_device, dtype)
    for cache in (*slot_cache.keys, *slot_cache.values):
        cache.fill_(WEIGHT_VALUE)
    for level, defaults in zip(slot_cache.levels, (config.talker, config.predictor), strict=True):
        level.top_k.fill_(min(config.generation.top_k or defaults.vocab_size, defaults.vocab_size))
        level.host_top_k.fill(int(level.top_k[0]))
    frame, row, slot = Frame(config, talker, device, slot_cache, dtype, 1, 1), torch.zeros(1, dtype=torch.int64), [0]

    def work() -> Tensor:
        slot_cache.position.fill_(ATTENDED_POSITIONS - 1)
        slot_cache.frame.fill_(1)
        return frame.next(row, np.array(slot)).sum()

    return work


def _take_turns(modules: nn.ModuleList, count: int) -> None:
    for index in range(count, len(modules)):
        modules[index] = modules[index % count]


def _sound_units(dtype: torch.dtype) -> Callable[[], Tensor]:
    """Return a function that runs two of Code2Wav's residual units for one frame."""
    calls = [_residual_unit(rows, width, dtype) for rows, width in SOUND_UNITS]
    return lambda: torch.stack([call() for call in calls]).sum()


def _residual_unit(rows: int, width: int, dtype: torch.dtype) -> Callable[[], Tensor]:
    with on_meta():
        unit = ResidualUnit(width, dilation=1)
    _fill(unit, torch.float32, None)
    lay_out(unit, dtype)
    unit.conv1.slot = 0
    x = torch.full((1, rows, width), WEIGHT_VALUE)
    state = StreamState([torch.zeros(1, unit.conv1.left, width)], [], [], torch.zeros(1, dtype=torch.int64))
    return lambda: unit(x, state).sum()


def _fill(network: nn.Module, dtype: torch.dtype, quantization: Quantization | None) -> None:
    """Materialize a network from the meta device with constant weights.

    The weights are quantized and packed as in a real load.
    """
    for module in network.modules():
        if isinstance(module, Linear | MappedEmbedding | RMSNorm | Conv | SnakeBeta):
            for name, parameter in module.named_parameters(recurse=False):
                filled = nn.Parameter(torch.full(parameter.shape, WEIGHT_VALUE, dtype=dtype), requires_grad=False)
                setattr(module, name, filled)
        if isinstance(module, Linear) and quantization is not None:
            module.quantize(quantization)
        elif dtype is torch.bfloat16:
            pack(module)
    move_to_huge_pages()
