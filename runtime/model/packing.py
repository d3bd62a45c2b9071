"""Conversion of Code2Wav's weights for the kernels: folding, casting and layout.

Consecutive linear operations become one product. Codebooks and their projections become tables. The transformer's input
projection is folded into pre_conv, and its output projection into the first upsampling. Norm weights, layer scales and
gamma are folded into adjacent products. Folding is computed in float64 with one cast at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.device.kernels.code2wav.convolution import PackedConvolution
from runtime.device.kernels.code2wav.residual_unit import PackedUnit, fits_shared_memory, split_channels
from runtime.device.kernels.code2wav.snake import Snake
from runtime.device.kernels.code2wav.streams import PastInputs
from runtime.model.code2wav import MIN_CLUSTER_USAGE, Code2Wav


@dataclass(frozen=True, slots=True)
class PackedLayer:
    """Packed weights of a transformer layer."""

    qkv: PackedConvolution
    out: PackedConvolution
    gate_up: PackedConvolution  # The columns of gate and up alternate.
    down: PackedConvolution


@dataclass(frozen=True, slots=True)
class PackedStage:
    """Packed weights of an upsampling layer and of the ConvNeXt block after it.

    `upsample` is None for the first layer, which is folded into the transformer's output.
    """

    upsample: PackedConvolution | None
    depthwise: Tensor  # Shape: [taps, C], dtype float32.
    depthwise_bias: Tensor
    past: PastInputs
    eps: float
    widen: PackedConvolution
    narrow: PackedConvolution


@dataclass(frozen=True, slots=True)
class PackedWideUnit:
    """Packed weights of a residual unit with too many channels for a single kernel."""

    first: PackedConvolution
    between: Snake
    second: PackedConvolution


@dataclass(frozen=True, slots=True)
class PackedBlock:
    """Packed weights of a transposed convolution and of the residual units after it."""

    upsample: PackedConvolution
    past: PastInputs
    channels: int
    head: Snake  # SnakeBeta before the first unit. It is applied once to all upsampled time steps.
    heads: list[Snake]  # SnakeBeta before each later unit.
    units: list[PackedUnit | PackedWideUnit]
    pasts: list[PastInputs]


@dataclass(frozen=True, slots=True)
class PackedNetwork:
    """Packed weights of Code2Wav in the order of the data flow."""

    tables: Tensor  # Shape: [Q, codes, codebook_dim].
    entry: PackedConvolution
    entry_past: PastInputs
    layers: list[PackedLayer]
    frequencies: Tensor  # Frequencies of RoPE. Shape: [d / 2], dtype float32.
    exit: PackedConvolution
    stages: list[PackedStage]
    first: PackedConvolution
    first_past: PastInputs
    snakes: list[Snake]  # SnakeBeta layers before each block and before the last convolution.
    blocks: list[PackedBlock]
    last: Tensor  # Shape: [taps, C], dtype float32.
    last_bias: Tensor
    last_past: PastInputs


def pack(code2wav: Code2Wav, dtype: torch.dtype, pasts: list[PastInputs]) -> PackedNetwork:
    """Pack the weights of a loaded Code2Wav network for the kernels.

    Args:
        dtype: Dtype of the packed weights.
        pasts: State memory of each causal convolution, by the convolution's slot.
    """
    packer = _Packer(dtype, pasts)
    network: Any = code2wav  # The type is `Any`, because torch's types do not describe the elements of a ModuleList.
    config, transformer = code2wav.config, network.pre_transformer
    entry, bias = _taps(network.pre_conv.conv)
    inner = transformer.input_proj.weight.double()
    rates = torch.arange(0, config.head_dim, 2, device=inner.device, dtype=torch.float32) / config.head_dim
    first_upsampling, first_bias = _upsampling(network.upsample[0][0].conv)
    out = transformer.output_proj.weight.double() * transformer.norm.weight.double()
    first, *blocks, snake, last = network.decoder
    weight, last_bias = _taps(last.conv)
    quantizers = (network.quantizer.rvq_first, network.quantizer.rvq_rest)
    return PackedNetwork(
        tables=torch.cat([_tables(part) for part in quantizers]).to(dtype).contiguous(),
        entry=packer.product(
            entry @ inner.t(), inner @ bias + transformer.input_proj.bias.double(), len(entry) // 3, taps=3
        ),
        entry_past=pasts[network.pre_conv.slot],
        layers=[packer.layer(layer) for layer in transformer.layers],
        frequencies=config.rope_theta**-rates,
        exit=packer.product(
            out.t() @ first_upsampling,
            transformer.output_proj.bias.double() @ first_upsampling + first_bias,
            config.hidden_size,
        ),
        stages=[packer.stage(upsample, block, index > 0) for index, (upsample, block) in enumerate(network.upsample)],
        first=packer.convolution(first.conv),
        first_past=pasts[first.slot],
        snakes=[*(_snake(block.block[0]) for block in blocks), _snake(snake)],
        blocks=[packer.block(block) for block in blocks],
        last=weight.float().view(-1, last.inputs).contiguous(),
        last_bias=last_bias.float().contiguous(),
        last_past=pasts[last.slot],
    )


class _Packer:
    """Converter from the modules of runtime/model/code2wav.py to the kernels' layout."""

    def __init__(self, dtype: torch.dtype, pasts: list[PastInputs]) -> None:
        self.dtype = dtype
        self.pasts = pasts

    def product(
        self, weight: Tensor, bias: Tensor | None, inputs: int, taps: int = 1, dilation: int = 1
    ) -> PackedConvolution:
        """Pack the weight and bias of a matrix product.

        Shapes: weight [taps * inputs, N]; bias [N].
        """
        cast = None if bias is None else bias.float().contiguous()
        return PackedConvolution(weight.t().to(self.dtype).contiguous(), cast, inputs, taps, dilation)

    def convolution(self, conv: Any) -> PackedConvolution:
        weight, bias = _taps(conv)
        return self.product(weight, bias, conv.in_channels, conv.kernel_size[0], conv.dilation[0])

    def layer(self, layer: Any) -> PackedLayer:
        attention, mlp = layer.self_attn, layer.mlp
        qkv = attention.qkv_proj.weight.double() * layer.input_layernorm.weight.double()
        scale = layer.self_attn_layer_scale.scale.double()
        out = attention.o_proj.weight.double() * scale[:, None]
        out_bias = None if attention.o_proj.bias is None else scale * attention.o_proj.bias.double()
        gate, up = (mlp.gate_up_proj.weight.double() * layer.post_attention_layernorm.weight.double()).chunk(2)
        pairs = torch.stack((gate, up), dim=1).flatten(0, 1)
        down = mlp.down_proj.weight.double() * layer.mlp_layer_scale.scale.double()[:, None]
        return PackedLayer(
            self.product(qkv.t(), attention.qkv_proj.bias, qkv.shape[1]),
            self.product(out.t(), out_bias, out.shape[1]),
            self.product(pairs.t(), None, pairs.shape[1]),
            self.product(down.t(), None, down.shape[1]),
        )

    def stage(self, upsample: Any, block: Any, upsamples: bool) -> PackedStage:
        depthwise, norm, wide, narrow = block.dwconv.conv, block.norm, block.pwconv1, block.pwconv2
        wide_bias = wide.weight.double() @ norm.bias.double() + wide.bias.double()
        gamma = block.gamma.double()
        return PackedStage(
            self.product(*_upsampling(upsample.conv), upsample.inputs) if upsamples else None,
            depthwise.weight[:, 0].t().float().contiguous(),
            depthwise.bias.float().contiguous(),
            self.pasts[block.dwconv.slot],
            norm.eps,
            self.product((wide.weight.double() * norm.weight.double()).t(), wide_bias, wide.in_features),
            self.product(
                (narrow.weight.double() * gamma[:, None]).t(), gamma * narrow.bias.double(), narrow.in_features
            ),
        )

    def block(self, block: Any) -> PackedBlock:
        _, upsample, *units = block.block
        conv = upsample.conv
        head, *heads = (_snake(unit.act1) for unit in units)
        return PackedBlock(
            self.product(*_upsampling(conv), upsample.inputs, conv.kernel_size[0] // conv.stride[0]),
            self.pasts[upsample.slot],
            conv.out_channels,
            head.repeated(conv.stride[0]),
            heads,
            [self.unit(unit) for unit in units],
            [self.pasts[unit.conv1.slot] for unit in units],
        )

    def unit(self, unit: Any) -> PackedUnit | PackedWideUnit:
        wide, point, between = self.convolution(unit.conv1.conv), self.convolution(unit.conv2.conv), _snake(unit.act2)
        if not fits_shared_memory(wide.inputs, self.dtype):
            return PackedWideUnit(wide, between, point)
        tiles = split_channels(wide.inputs)
        beyond = sum(tiles) - wide.inputs
        assert wide.bias is not None, "published with a bias"
        assert point.bias is not None, "published with a bias"
        return PackedUnit(
            PackedConvolution(
                F.pad(wide.weight, (0, 0, 0, beyond)),
                F.pad(wide.bias, (0, beyond)),
                wide.inputs,
                wide.taps,
                wide.dilation,
            ),
            between.padded(beyond),
            F.pad(point.weight, (0, beyond, 0, beyond)),
            F.pad(point.bias, (0, beyond)),
            tiles,
        )


def _taps(conv: Any) -> tuple[Tensor, Tensor]:
    """Return a convolution's weight as a matrix, oldest tap first, and its bias.

    Shapes: results [taps * C, N] and [N], both float64.
    """
    return conv.weight.double().permute(2, 1, 0).flatten(0, 1), conv.bias.double()


def _upsampling(conv: Any) -> tuple[Tensor, Tensor]:
    """Return a transposed convolution as a matrix, oldest part first, and its bias.

    Shapes: results [parts * C, stride * N] and [stride * N].
    """
    stride = conv.stride[0]
    parts = conv.kernel_size[0] // stride
    weight = conv.weight.double().permute(2, 0, 1).reshape(parts, stride, conv.in_channels, conv.out_channels)
    matrix = weight.flip(0).permute(0, 2, 1, 3).reshape(parts * conv.in_channels, -1)
    return matrix, conv.bias.double().repeat(stride)


def _snake(snake: Any) -> Snake:
    return Snake.of(snake.alpha, snake.beta)


def _tables(quantizer: Any) -> Tensor:
    """Return the embeddings of all codebooks after the output projection.

    Shapes: [groups, codes, outer] float64.
    """
    projection = quantizer.output_proj.weight.double()[:, :, 0]
    tables = []
    for layer in quantizer.vq.layers:
        usage = layer._codebook.cluster_usage.double().clamp(min=MIN_CLUSTER_USAGE)
        tables.append(layer._codebook.embedding_sum.double() / usage.unsqueeze(-1) @ projection.t())
    return torch.stack(tables)
