"""Code2Wav in kernels: what ``code2wav.py`` says, with its weights folded, cast and laid out for a card.

Whatever is linear after something linear is one product here: codebooks and their projections are tables, the entry
of the transformer is one convolution with pre_conv, its exit one with the first upsampling; norms' weights, layer
scales and gamma lie in the products beside them. Everything is folded in float64 and cast once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.device.kernels.convolution import After, Made, Packed, convolve
from runtime.device.kernels.pointwise import look_up, normed_depthwise, pcm
from runtime.device.kernels.residual_unit import PackedUnit, fits, residual_unit, split
from runtime.device.kernels.snake import Snake
from runtime.device.kernels.streams import Past
from runtime.device.kernels.window import attend_window, ring_for
from runtime.model.code2wav import (
    CODEBOOK_EPS,
    CausalTransposedConv,
    Code2Wav,
    ConvNeXt,
    ResidualQuantizer,
    ResidualUnit,
    SnakeBeta,
    StreamState,
    UpsampleBlock,
    WindowLayer,
)
from runtime.model.products import Conv

LONGEST = 16  # frames of a chunk
ALIGNED = 64  # elements: where the memory of each convolution begins


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the transformer."""

    qkv: Packed
    out: Packed
    gate_up: Packed
    down: Packed


@dataclass(frozen=True, slots=True)
class Stage:
    """A ConvNeXt block, and the upsampling before it unless that went into the transformer's exit."""

    upsample: Packed | None
    depthwise: Tensor  # [taps, C] float32
    depthwise_bias: Tensor
    past: Past
    eps: float
    widen: Packed
    narrow: Packed


@dataclass(frozen=True, slots=True)
class WideUnit:
    """A residual unit whose channels are too many for one program: two products."""

    first: Packed
    between: Snake
    second: Packed


@dataclass(frozen=True, slots=True)
class Block:
    """A transposed convolution and its residual units; ``before`` is the SnakeBeta at the head of each unit."""

    upsample: Packed
    past: Past
    before: list[Snake]
    units: list[PackedUnit | WideUnit]
    pasts: list[Past]


class PackedSound:
    """All open streams, and Code2Wav over some of them (``runtime.model.sound.SoundNetwork``)."""

    def __init__(self, code2wav: Code2Wav, slots: int, dtype: torch.dtype) -> None:
        config = code2wav.config
        self.dtype, self.device = dtype, code2wav.pre_conv.conv.weight.device
        self.eps, self.window, self.tail_frames = config.rms_norm_eps, config.sliding_window, code2wav.tail_frames
        sizes = [module.left * module.inputs for module in code2wav.looking_back]
        starts = [0]
        for size in sizes:
            starts.append(starts[-1] + -(-size // ALIGNED) * ALIGNED)
        ring = ring_for(config.sliding_window, LONGEST)
        self.longest = ring - config.sliding_window + 1
        with torch.inference_mode():
            self.memory = torch.zeros((2, slots, starts[-1]), device=self.device, dtype=dtype)
            cache = (2, config.num_key_value_heads, ring, config.head_dim)
            self.rings = torch.zeros(
                (slots, config.num_hidden_layers, *cache), device=self.device, dtype=dtype
            )
            self.pasts = [
                Past(self.memory[..., start : start + size], module.left)
                for module, start, size in zip(code2wav.looking_back, starts, sizes, strict=False)
            ]
            self._pack(code2wav)

    @property
    def bytes_held(self) -> int:
        return sum(part.numel() * part.element_size() for part in (self.memory, self.rings))

    # --- SoundNetwork

    def decode(self, rows: Tensor, codes: Tensor) -> Tensor:
        return self._vocode(self._latents(rows, codes), rows)

    def reset(self, slot: int) -> None:
        self.memory[:, slot] = 0
        self.rings[slot] = 0

    def warm(self, slot: int, codes: Tensor) -> int:
        codes = codes.to(self.device, torch.int32).unsqueeze(0)
        early = max(0, codes.shape[1] - self.tail_frames)
        ends = [*range(self.longest, early, self.longest), early, codes.shape[1]]
        begin = turn = 0
        for end in ends:
            if end > begin:
                rows = torch.tensor([[slot, turn, begin]], device=self.device, dtype=torch.int32)
                latents = self._latents(rows, codes[:, begin:end].contiguous())
                if end == codes.shape[1]:  # the convolutions remember no more than these frames
                    self._vocode(latents, rows)
                begin, turn = end, 1 - turn
        return turn

    def keep(self, slot: int) -> StreamState:
        return StreamState([self.memory[:, slot].clone()], [self.rings[slot].clone()], [], torch.empty(0))

    def put(self, slot: int, state: StreamState) -> None:
        self.memory[:, slot], self.rings[slot] = state.convs[0], state.keys[0]

    # --- the network, in the order of its data flow

    def _latents(self, rows: Tensor, codes: Tensor) -> Tensor:
        """Codes to the output of the first upsampling. Shapes: [B, n, Q] to [B, n * ratio, latent]."""
        B, n, _ = codes.shape
        z = look_up(codes, self.tables)
        x = convolve(self.entry, z, rows, self.entry_past).values
        for index, layer in enumerate(self.layers):
            qkv = convolve(layer.qkv, x, rows, norm_eps=self.eps).values
            attended = attend_window(qkv, self.rings[:, index], rows, self.frequencies, self.window)
            x = convolve(layer.out, attended, rows, residual=x).values
            inner = convolve(layer.gate_up, x, rows, norm_eps=self.eps, after=After.SWIGLU).values
            x = convolve(layer.down, inner, rows, residual=x).values
        return convolve(self.exit, x, rows, norm_eps=self.eps).values.view(B, n * self.exit_ratio, -1)

    def _vocode(self, x: Tensor, rows: Tensor) -> Tensor:
        B = len(x)
        for stage in self.stages:
            if stage.upsample is not None:
                x = convolve(stage.upsample, x, rows).values.view(B, -1, stage.upsample.inputs)
            y = normed_depthwise(x, stage.depthwise, stage.depthwise_bias, rows, stage.past, stage.eps)
            inner = convolve(stage.widen, y, rows, after=After.GELU).values
            x = convolve(stage.narrow, inner, rows, residual=x).values
        made = convolve(self.first, x, rows, self.first_past, then=self.snakes[0], plain=False)
        for block, after in zip(self.blocks, self.snakes[1:], strict=True):
            made = self._block(block, made, after, rows)
        assert made.activated is not None
        return pcm(made.activated, self.last, self.last_bias, rows, self.last_past)

    def _block(self, block: Block, made: Made, after: Snake, rows: Tensor) -> Made:
        assert made.activated is not None
        width = len(block.before[0].rate)
        rate = block.upsample.width // width
        B = len(made.activated)
        up = convolve(block.upsample, made.activated, rows, block.past, then=block.before[0].repeated(rate))
        made = Made(*(part.view(B, -1, width) for part in (up.values, up.activated) if part is not None))
        thens = [*block.before[1:], after]
        for unit, past, then in zip(block.units, block.pasts, thens, strict=True):
            x, a = made.values, made.activated
            assert a is not None
            plain = then is not after  # behind the last unit only SnakeBeta of it goes on
            if isinstance(unit, PackedUnit):
                made = residual_unit(unit, x, a, rows, past, then, plain)
            else:
                middle = convolve(unit.first, a, rows, past, then=unit.between, plain=False).activated
                assert middle is not None
                made = convolve(unit.second, middle, rows, residual=x, then=then, plain=plain)
        return made

    # --- packing

    def _pack(self, code2wav: Code2Wav) -> None:
        config, transformer = code2wav.config, code2wav.pre_transformer
        self.tables = torch.cat([_tables(part) for part in _quantizers(code2wav)]).to(self.dtype).contiguous()
        entry, bias = _taps(code2wav.pre_conv.conv)
        inner = transformer.input_proj.weight.double()
        self.entry = self._product(
            entry @ inner.t(), inner @ bias + _double(transformer.input_proj.bias), config.codebook_dim, 3
        )
        self.entry_past = self.pasts[code2wav.pre_conv.slot]
        self.layers = [self._layer(layer) for layer in transformer.layers]
        rates = torch.arange(0, config.head_dim, 2, device=self.device, dtype=torch.float32) / config.head_dim
        self.frequencies = config.rope_theta**-rates
        (first_up, _), *_ = code2wav.upsample
        up, bias = _upsampling(first_up)
        out = transformer.output_proj.weight.double() * transformer.norm.weight.double()
        self.exit = self._product(
            out.t() @ up, _double(transformer.output_proj.bias) @ up + bias, config.hidden_size
        )
        self.exit_ratio = config.upsampling_ratios[0]
        self.stages = [
            self._stage(None if index == 0 else upsample, block)
            for index, (upsample, block) in enumerate(code2wav.upsample)
        ]
        first, *blocks, snake, last = code2wav.decoder
        self.first, self.first_past = self._convolution(first.conv), self.pasts[first.slot]
        self.snakes = [*(_snake(block.block[0]) for block in blocks), _snake(snake)]
        self.blocks = [self._block_of(block) for block in blocks]
        weight, self.last_bias = _taps(last.conv)[0].float(), last.conv.bias.float().contiguous()
        self.last, self.last_past = weight.view(-1, last.inputs).contiguous(), self.pasts[last.slot]

    def _product(
        self, weight: Tensor, bias: Tensor | None, inputs: int, taps: int = 1, dilation: int = 1
    ) -> Packed:
        cast = None if bias is None else bias.float().contiguous()
        return Packed(weight.to(self.dtype).contiguous(), cast, inputs, taps, dilation)

    def _convolution(self, conv: Conv) -> Packed:
        weight, bias = _taps(conv)
        return self._product(weight, bias, conv.in_channels, conv.kernel_size[0], conv.dilation[0])

    def _layer(self, layer: WindowLayer) -> Layer:
        attention, mlp = layer.self_attn, layer.mlp
        width = attention.qkv_proj.in_features
        qkv = attention.qkv_proj.weight.double() * layer.input_layernorm.weight.double()
        scale = layer.self_attn_layer_scale.scale.double()
        out_bias = None if attention.o_proj.bias is None else scale * attention.o_proj.bias.double()
        gate, up = (mlp.gate_up_proj.weight.double() * layer.post_attention_layernorm.weight.double()).chunk(2)
        pairs = torch.stack((gate, up), dim=1).flatten(0, 1)
        down = mlp.down_proj.weight.double() * layer.mlp_layer_scale.scale.double()[:, None]
        return Layer(
            self._product(qkv.t(), attention.qkv_proj.bias, width),
            self._product((attention.o_proj.weight.double() * scale[:, None]).t(), out_bias, attention.o_proj.in_features),
            self._product(pairs.t(), None, width),
            self._product(down.t(), None, mlp.down_proj.in_features),
        )

    def _stage(self, upsample: CausalTransposedConv | None, block: ConvNeXt) -> Stage:
        depthwise, norm = block.dwconv.conv, block.norm
        wide, narrow, gamma = block.pwconv1, block.pwconv2, block.gamma.double()
        wide_bias = wide.weight.double() @ norm.bias.double() + _double(wide.bias)
        return Stage(
            None if upsample is None else self._product(*_upsampling(upsample), upsample.inputs),
            depthwise.weight[:, 0].t().float().contiguous(),
            _double(depthwise.bias).float(),
            self.pasts[block.dwconv.slot],
            norm.eps,
            self._product((wide.weight.double() * norm.weight.double()).t(), wide_bias, wide.in_features),
            self._product((narrow.weight.double() * gamma[:, None]).t(), gamma * narrow.bias.double(), narrow.in_features),
        )

    def _block_of(self, block: UpsampleBlock) -> Block:
        _, upsample, *units = block.block
        conv = upsample.conv
        return Block(
            self._product(*_upsampling(upsample), upsample.inputs, conv.kernel_size[0] // conv.stride[0]),
            self.pasts[upsample.slot],
            [_snake(unit.act1) for unit in units],
            [self._unit(unit) for unit in units],
            [self.pasts[unit.conv1.slot] for unit in units],
        )

    def _unit(self, unit: ResidualUnit) -> PackedUnit | WideUnit:
        conv, channels = unit.conv1.conv, unit.conv1.inputs
        if not fits(channels):
            return WideUnit(self._convolution(conv), _snake(unit.act2), self._convolution(unit.conv2.conv))
        tiles = split(channels)
        beyond = sum(tiles) - channels
        weight, bias = _taps(conv)
        point, point_bias = _taps(unit.conv2.conv)
        between = _snake(unit.act2)
        pad = torch.nn.functional.pad
        between.rate, between.gain = pad(between.rate, (0, beyond)), pad(between.gain, (0, beyond))
        return PackedUnit(
            self._product(pad(weight, (0, beyond)), pad(bias, (0, beyond)), channels, conv.kernel_size[0], conv.dilation[0]),
            between,
            pad(point, (0, beyond, 0, beyond)).to(self.dtype).contiguous(),
            pad(point_bias, (0, beyond)).float().contiguous(),
            tiles,
        )


def _double(bias: Tensor | None) -> Tensor:
    assert bias is not None, "published with a bias"
    return bias.double()


def _taps(conv: Conv) -> tuple[Tensor, Tensor]:
    """Weight as a matrix [taps * C, N], oldest tap first, and bias [N], both float64."""
    return conv.weight.double().permute(2, 1, 0).flatten(0, 1), _double(conv.bias)


def _upsampling(upsample: CausalTransposedConv) -> tuple[Tensor, Tensor]:
    """The same of a transposed convolution: [parts * C, stride * N] and [stride * N], oldest part first."""
    conv = upsample.conv
    stride = conv.stride[0]
    parts = conv.kernel_size[0] // stride
    weight = conv.weight.double().permute(2, 0, 1).reshape(parts, stride, conv.in_channels, conv.out_channels)
    return weight.flip(0).permute(0, 2, 1, 3).reshape(parts * conv.in_channels, -1), _double(conv.bias).repeat(stride)


def _snake(snake: SnakeBeta) -> Snake:
    return Snake(snake.alpha, snake.beta)


def _quantizers(code2wav: Code2Wav) -> tuple[ResidualQuantizer, ResidualQuantizer]:
    return code2wav.quantizer.rvq_first, code2wav.quantizer.rvq_rest


def _tables(quantizer: ResidualQuantizer) -> Tensor:
    """Every codebook behind its projection. Shapes: [groups, size, outer] float64."""
    projection = quantizer.output_proj.weight.double()[:, :, 0]
    books = [layer._codebook for layer in quantizer.vq.layers]
    rows = [
        book.embedding_sum.double() / book.cluster_usage.double().clamp(min=CODEBOOK_EPS).unsqueeze(-1)
        for book in books
    ]
    return torch.stack([row @ projection.t() for row in rows])
