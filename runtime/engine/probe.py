"""Measures for a moment how long this processor takes for a frame of a checkpoint's shapes, before any of it is here.

The layers are the engine's own, with weights of no meaning: a few of the talker's, as many as no cache holds, the code
predictor's, which are read again for each code, with its draws, what a frame draws first, and two of Code2Wav's units.
What a whole frame takes follows from their number, and from how much slower a core makes frames while another makes
sound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto

import torch
from torch import Tensor, nn

from runtime.device import Device
from runtime.device.cpu import CORES, Threads, shared_out
from runtime.device.huge_pages import gather
from runtime.device.open_device import choose_sound_dtype
from runtime.device.quantized import Quantization
from runtime.engine.frame import can_script_on, operations_of
from runtime.engine.frame_shape import FrameShape, Weights, layer_bytes
from runtime.engine.noise import CpuNoise
from runtime.engine.probe_timing import (
    ROUNDS,
    Timing,
    computing_with,
    counts_processor_time,
    one_round,
    repeating,
    timing,
)
from runtime.engine.sampling import LevelSettings, gumbel_noise, pick, talker_rules
from runtime.engine.scripted_frame import scripted_frame
from runtime.model.code2wav import ResidualUnit, SnakeBeta, StreamState
from runtime.model.code_predictor import CodePredictor, FrameCache
from runtime.model.config import DecoderConfig
from runtime.model.layers import Attention, DecoderStack, Operations, RMSNorm, join_heads
from runtime.model.products import Conv, Linear, Table, lay_out, pack
from runtime.model.scripted import scripted_step
from runtime.model.weights import on_meta

COLD = 64 * 2**20  # bytes of the talker's weights in a measurement, at least: more than most processors keep near
SEEN = 256  # positions that the talker attends over: twenty seconds of speech
PASSES = 2  # of the code predictor in a measurement
WEIGHT = 0.01  # of every product; what comes of it stays finite, and is no denormal number
# Moments of a frame, and channels, in the first of Code2Wav's four blocks, which reads, and the third, which computes.
SOUND_UNITS = ((32, 768), (640, 192))
SOUND = 11.0  # times as long as two such units takes Code2Wav for a frame: 10.6 to 11.3 in bfloat16, 11.0 in float32
TOP_K = 50  # of a draw, as published checkpoints ask for


class Part(Enum):
    """What a frame consists of, but for its sound."""

    LAYER = auto()  # of the talker
    DRAW = auto()  # of its first code
    PASS = auto()  # of the code predictor, and its draw


@dataclass(slots=True)
class Probe:
    """A processor. What it has measured it does not measure again.

    Args:
        threads: of frames and of sound as the settings say; 0: as cores are shared out.
        sound_dtype: what the settings say of Code2Wav's products.
    """

    device: Device
    threads: int = 0
    sound_dtype: str = "auto"
    _known: dict[tuple[DecoderConfig, Weights, Part], Timing] = field(default_factory=dict)
    _sound: dict[tuple[torch.dtype, int], Timing] = field(default_factory=dict)
    _slower: dict[tuple[DecoderConfig, Weights], float] = field(default_factory=dict)

    def rtf(self, shape: FrameShape, weights: Weights, frame_s: float) -> float:
        """Seconds of computing for a second of speech, if nothing else is at work.

        Args:
            frame_s: seconds of speech in a frame.
        """
        frame, sound, slower = self.frame_s(shape, weights), self.sound_s(weights), self.slower(shape, weights)
        return round(together(frame, sound, slower) / frame_s, 3)

    def rtf_now(self, shape: FrameShape, weights: Weights, frame_s: float) -> float:
        """The same beside what else was at work. Args: as above."""
        frame, sound = self._frame(shape, weights).middle, self._sound_of(weights).middle
        return round(together(frame, sound, self.slower(shape, weights)) / frame_s, 3)

    def frame_s(self, shape: FrameShape, weights: Weights) -> float:
        """Seconds that a frame of one request takes, without its sound."""
        return self._frame(shape, weights).best

    def sound_s(self, weights: Weights) -> float:
        """Seconds that Code2Wav takes for a frame, beside talker and code predictor with such weights."""
        return self._sound_of(weights).best

    @torch.inference_mode()
    def _frame(self, shape: FrameShape, weights: Weights) -> Timing:
        parts = (
            self._once(shape.talker, weights, Part.LAYER).times(shape.talker.num_hidden_layers),
            self._once(shape.talker, weights, Part.DRAW),
            self._once(shape.predictor, weights, Part.PASS).times(shape.predictor.num_code_groups - 1),
        )
        return Timing(sum(part.best for part in parts), sum(part.middle for part in parts))

    @torch.inference_mode()
    def _sound_of(self, weights: Weights) -> Timing:
        dtype, threads = choose_sound_dtype(self.sound_dtype, self.device, *weights), self._threads().sound
        if (dtype, threads) not in self._sound:
            with computing_with(threads):
                self._sound[dtype, threads] = timing(self._unit(dtype)).times(SOUND)
        return self._sound[dtype, threads]

    def slower(self, shape: FrameShape, weights: Weights) -> float:
        """How many times longer frames take while sound is made: both wait for one memory, and for one interpreter.

        Infinitely where they share cores: then one waits for the other.
        """
        self._frame(shape, weights)
        return self._slower[shape.predictor, weights]

    def _threads(self) -> Threads:
        return Threads(self.threads, self.threads) if self.threads else shared_out(CORES)

    def _unit(self, dtype: torch.dtype) -> Callable[[], Tensor]:
        """The work of two of Code2Wav's residual units, for one frame."""
        works = [_residual_unit(rows, width, dtype) for rows, width in SOUND_UNITS]
        return lambda: torch.stack([work() for work in works]).sum()

    def _once(self, config: DecoderConfig, weights: Weights, part: Part) -> Timing:
        """A part of a frame, once; ``config`` is the talker's or, for a pass, the code predictor's."""
        key = config, weights, part
        if key not in self._known:
            with computing_with(self._threads().frames):
                if part is Part.LAYER:
                    self._known[key] = self._layer(config, *weights)
                elif part is Part.DRAW:
                    self._known[key] = self._draw(config, *weights)
                else:
                    both, self._slower[config, weights] = self._pass(config, weights)
                    self._known[key] = both.times(1 / PASSES)
        return self._known[key]

    def _pass(self, config: DecoderConfig, weights: Weights) -> tuple[Timing, float]:
        """Some passes of a code predictor, and how many times longer they take while sound is made."""
        passes, threads = self._passes(config, *weights), self._threads()
        if threads.frames + threads.sound > CORES:
            return timing(passes), math.inf
        unit = self._unit(choose_sound_dtype(self.sound_dtype, self.device, *weights))
        alone, beside = [], []
        passes().item()
        for _ in range(ROUNDS):  # in turns, so that others' work is beside both
            alone += one_round(passes)
            with repeating(unit, threads.sound):
                beside += one_round(passes)
        # Of several threads this one's own share of the work: it says as well how long they wait for memory.
        slower = min(run.processor for run in beside) / min(run.processor for run in alone)
        return Timing.of(alone, by_processor=counts_processor_time()), max(1.0, slower)

    def _layer(self, config: DecoderConfig, dtype: torch.dtype, quantization: Quantization | None) -> Timing:
        """One layer of a talker."""
        count = min(config.num_hidden_layers, 1 + COLD // layer_bytes(config, dtype, quantization))
        with on_meta():
            stack = DecoderStack(replace(config, num_hidden_layers=count))
        _fill(stack, dtype, quantization)
        x = torch.full((1, 1, config.hidden_size), WEIGHT, dtype=dtype)
        ops = operations_of(self.device)
        attend = _Attend(config, self.device, ops, stack, dtype)
        step = scripted_step(stack, dtype) if can_script_on(self.device) else None
        if step is None:
            return timing(lambda: stack.decode(x, attend, ops).sum()).times(1 / count)
        return timing(lambda: step(x, *attend.cache, [0], [SEEN - 1], *attend.angles).sum()).times(1 / count)

    def _draw(self, config: DecoderConfig, dtype: torch.dtype, quantization: Quantization | None) -> Timing:
        """The scores of a frame's first code, its draw by all rules, and the noise of all codes of the frame."""
        V, one = config.vocab_size, torch.ones(1)
        with on_meta():
            head = Linear(config.hidden_size, V, bias=False)
        _fill(head, dtype, quantization)
        hidden = torch.full((1, config.hidden_size), WEIGHT, dtype=dtype)
        noise, zero = CpuNoise((V, V), config.num_code_groups), torch.zeros(1, dtype=torch.int64)
        seen, allowed = torch.zeros((1, V), dtype=torch.bool), torch.ones(V, dtype=torch.bool)

        def draw() -> Tensor:
            first, _ = noise.of(zero, zero)
            scores = talker_rules(head(hidden).float(), seen, one, zero, zero, allowed, V - 1)
            return pick(scores, _level(), first).sum()

        return timing(draw)

    def _passes(
        self, config: DecoderConfig, dtype: torch.dtype, quantization: Quantization | None
    ) -> Callable[[], Tensor]:
        """The work of some passes of a code predictor."""
        with on_meta():
            predictor = CodePredictor(replace(config, num_code_groups=PASSES + 1), config.hidden_size)
        _fill(predictor, dtype, quantization)
        ops = operations_of(self.device)
        cache = FrameCache(predictor, 1, self.device, dtype, ops)
        x = torch.full((1, 2, config.hidden_size), WEIGHT, dtype=dtype)

        zero, level = torch.zeros(1, dtype=torch.int64), _level()
        if can_script_on(self.device) and (draws := scripted_frame(predictor, dtype)) is not None:
            settings = level.temperature, level.top_k, level.top_p, level.greedy, level.widest_k, level.any_top_p
            noise = gumbel_noise(zero, zero, PASSES, config.vocab_size)
            keys, values, cos, sin = cache.keys, cache.values, cache.cos, cache.sin
            return lambda: draws(x, keys, values, cos, sin, *settings, noise)[1].sum()

        def draw(group: int, logits: Tensor, into: Tensor | None) -> None:
            pick(logits.float(), level, gumbel_noise(zero, zero, 1, config.vocab_size)[:, 0])
            if into is not None:
                into.copy_(x[:, 0])

        def frame() -> Tensor:
            predictor.predict(x, cache, ops, draw)
            return cache.keys.sum()

        return frame


def together(frame: float, sound: float, slower: float) -> float:
    """Seconds between two frames of which each is followed by its sound, on a core of its own.

    Args:
        frame, sound: seconds of each alone.
        slower: how many times longer frames take while sound is made.
    """
    return max(frame + sound * (1 - 1 / slower), sound)


def _level() -> LevelSettings:
    """How one row draws."""
    one = torch.ones(1)
    return LevelSettings(one, (TOP_K * one).long(), one, one > 1, TOP_K, any_top_p=False)


def _residual_unit(rows: int, width: int, dtype: torch.dtype) -> Callable[[], Tensor]:
    """The work of one of Code2Wav's residual units."""
    with on_meta():
        unit = ResidualUnit(width, dilation=1)
    _fill(unit, torch.float32, None)
    lay_out(unit, dtype)
    unit.conv1.slot = 0
    x = torch.full((1, rows, width), WEIGHT)
    state = StreamState([torch.zeros(1, unit.conv1.left, width)], [], [], torch.zeros(1, dtype=torch.int64))
    return lambda: unit(x, state).sum()


class _Attend:
    """Attention of one position over ``SEEN`` that are there."""

    def __init__(
        self, config: DecoderConfig, device: Device, ops: Operations, stack: DecoderStack, dtype: torch.dtype
    ) -> None:
        shape = (config.num_hidden_layers, 1, config.num_key_value_heads, SEEN, config.head_dim)
        self._keys = torch.full(shape, WEIGHT, dtype=dtype)
        self._values = torch.full(shape, WEIGHT, dtype=dtype)
        self.cache = list(self._keys), list(self._values)  # by layer
        self.angles = self._cos, self._sin = stack.angles(torch.full((1, 1), SEEN), dtype)
        self._device, self._ops = device, ops

    def __call__(self, layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        q, k, v = self._ops.heads(attention, qkv, self._cos, self._sin)
        keys, values = self._keys[layer], self._values[layer]
        keys[:, :, -1:], values[:, :, -1:] = k, v
        return join_heads(self._device.prefill_attention(q, keys, values))


def _fill(network: nn.Module, dtype: torch.dtype, quantization: Quantization | None) -> None:
    """Give the products, norms and tables of a network on the meta device weights."""
    for module in network.modules():
        if isinstance(module, Linear | Table | RMSNorm | Conv | SnakeBeta):
            for name, parameter in module.named_parameters(recurse=False):
                filled = nn.Parameter(torch.full(parameter.shape, WEIGHT, dtype=dtype), requires_grad=False)
                setattr(module, name, filled)
        if isinstance(module, Linear) and quantization is not None:
            module.quantize(quantization)
        elif dtype is torch.bfloat16:  # as they are loaded (runtime/model/checkpoint.py)
            pack(module)
    gather()
