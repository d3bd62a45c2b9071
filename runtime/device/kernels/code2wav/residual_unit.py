"""Kernel of a Code2Wav residual unit: x + conv1(snake(conv7(snake(x)))).

The kernel supports only small numbers of channels (``fits_shared_memory``). Between the convolutions, the channels stay
in the registers of one program, so the unit needs only two reads and two writes. Published checkpoints have 3 * 2^k
channels, which are divided into two tiles whose widths are powers of two. Additions are in the same order as in
``convolution.convolve``, so results are bitwise equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from runtime.device.kernels import pdl
from runtime.device.kernels.code2wav.convolution import (
    MIN_PROGRAMS,
    ConvolutionOutput,
    ConvolutionTile,
    PackedConvolution,
)
from runtime.device.kernels.code2wav.snake import Snake, snake
from runtime.device.kernels.code2wav.streams import ROW, PastInputs, store_past_inputs, wait_for_previous

# Maximum number of channels whose values fit into the registers of a program, by dtype.
WIDEST = {torch.bfloat16: 192, torch.float32: 16}
SMALLEST = 16  # Minimum width of a tile in columns.


def split_channels(channels: int) -> tuple[int, int]:
    """Divide channels into two tiles whose widths are powers of two, and return both widths.

    The second width is 0 if a single tile is used. A tile may be wider than its channels.
    """
    first = max(SMALLEST, 1 << (channels.bit_length() - 1))
    rest = channels - first
    if rest <= 0:
        return first, 0
    if rest >= SMALLEST and rest & (rest - 1) == 0:
        return first, rest
    return 2 * first, 0


def fits_shared_memory(channels: int, dtype: torch.dtype) -> bool:
    return channels <= WIDEST[dtype]


def tile_for(M: int, channels: int) -> ConvolutionTile:
    """Return the tile size for M rows of a residual unit.

    The tile size does not change results.
    """
    return ConvolutionTile(128, channels, 8, 3) if M >= 128 * MIN_PROGRAMS else ConvolutionTile(64, channels, 4, 3)


@dataclass(frozen=True, slots=True)
class PackedUnit:
    """Packed weights of a residual unit, padded with zeros to the two channel tiles.

    The tiles have C0 and C1 channels.

    Shapes: wide.weight [C0 + C1, 7 * C]; point [C0 + C1, C0 + C1], output channels first; wide.bias, point_bias [C0 +
    C1].
    """

    wide: PackedConvolution
    between: Snake
    point: Tensor
    point_bias: Tensor
    tiles: tuple[int, int]


@triton.jit
def _middle(acc, bias, rate, gain, n, KIND: tl.constexpr):
    """Apply bias and SnakeBeta between the two convolutions."""
    y = acc + tl.load(bias + n)[None, :]
    return snake(y, tl.load(rate + n)[None, :], tl.load(gain + n)[None, :]).to(KIND)


@triton.jit
def _finish(acc, bias, residual, out, activated, rate, gain, m, inside, n, C: tl.constexpr):
    """Add bias and residual to one tile, apply the next SnakeBeta, and store both results."""
    at = m[:, None] * C + n[None, :]
    in_bounds = inside[:, None] & (n < C)[None, :]
    y = acc + tl.load(bias + n)[None, :] + tl.load(residual + at, in_bounds, 0.0).to(tl.float32)
    if out is not None:
        tl.store(out + at, y, in_bounds)
    y = snake(y, tl.load(rate + n, n < C, 0.0)[None, :], tl.load(gain + n, n < C, 0.0)[None, :])
    tl.store(activated + at, y, in_bounds)


@triton.jit(do_not_specialize=["M", "T", "total", "left", "dilation"])
def _unit(
    x,
    memory,
    rows,
    weight,
    bias,
    middle_rate,
    middle_gain,
    point,
    point_bias,
    residual,
    out,
    activated,
    rate,
    gain,
    M,
    T,
    total,
    left,
    dilation,
    copy_stride,
    slot_stride,
    C: tl.constexpr,
    K: tl.constexpr,
    C0: tl.constexpr,
    C1: tl.constexpr,
    BM: tl.constexpr,
    BK: tl.constexpr,
    PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):
    wait_for_previous(PDL)
    N: tl.constexpr = C0 + C1
    KIND: tl.constexpr = x.dtype.element_ty
    tile = tl.program_id(0)
    programs = tl.num_programs(0)
    store_past_inputs(x, memory, rows, tile, programs, T, total, left, copy_stride, slot_stride, C)
    m = tile * BM + tl.arange(0, BM)
    inside = m < M
    m = tl.minimum(m, M - 1)
    row, t = m // T, m % T
    slot, parity = tl.load(rows + row * ROW), tl.load(rows + row * ROW + 1)
    past = parity * copy_stride + slot * slot_stride
    n0 = tl.arange(0, C0)
    acc0 = tl.zeros((BM, C0), tl.float32)
    if C1 > 0:
        n1 = C0 + tl.arange(0, C1)
        acc1 = tl.zeros((BM, C1), tl.float32)
    for k in tl.range(0, K, BK):
        ks = k + tl.arange(0, BK)
        if C % BK == 0:  # All columns of the step belong to the same tap of the convolution.
            source = (t + (k // C) * dilation - left)[:, None]
            channel = (tl.multiple_of(k % C, BK) + tl.arange(0, BK))[None, :]
        else:
            source = t[:, None] + ((ks // C) * dilation - left)[None, :]
            channel = (ks % C)[None, :]
        new = x + (row[:, None] * T + source) * C + channel
        old = memory + past[:, None] + (left + source) * C + channel
        addresses = tl.where(source >= 0, new, old)
        if K % BK == 0:
            a = tl.load(addresses)
            w0 = tl.load(weight + n0[:, None] * K + ks[None, :])
        else:
            a = tl.load(addresses, (ks < K)[None, :], 0.0)
            w0 = tl.load(weight + n0[:, None] * K + ks[None, :], (ks < K)[None, :], 0.0)
        acc0 = tl.dot(a, tl.trans(w0), acc0, input_precision=PRECISION)
        if C1 > 0:
            if K % BK == 0:
                w1 = tl.load(weight + n1[:, None] * K + ks[None, :])
            else:
                w1 = tl.load(weight + n1[:, None] * K + ks[None, :], (ks < K)[None, :], 0.0)
            acc1 = tl.dot(a, tl.trans(w1), acc1, input_precision=PRECISION)
    h0 = _middle(acc0, bias, middle_rate, middle_gain, n0, KIND)
    y0 = tl.dot(h0, tl.load(point + n0[None, :] * N + n0[:, None]), input_precision=PRECISION)
    if C1 > 0:
        h1 = _middle(acc1, bias, middle_rate, middle_gain, n1, KIND)
        y0 = tl.dot(h1, tl.load(point + n0[None, :] * N + n1[:, None]), y0, input_precision=PRECISION)
        y1 = tl.dot(h0, tl.load(point + n1[None, :] * N + n0[:, None]), input_precision=PRECISION)
        y1 = tl.dot(h1, tl.load(point + n1[None, :] * N + n1[:, None]), y1, input_precision=PRECISION)
        _finish(y1, point_bias, residual, out, activated, rate, gain, m, inside, n1, C)
    _finish(y0, point_bias, residual, out, activated, rate, gain, m, inside, n0, C)


def residual_unit(
    packed: PackedUnit,
    x: Tensor,
    activated: Tensor,
    rows: Tensor,
    past: PastInputs,
    next_snake: Snake,
    plain: bool,
) -> ConvolutionOutput:
    """Compute a residual unit over a chunk of every stream, and update the inputs in `past`.

    Args:
        activated: SnakeBeta of x.
        past: Earlier inputs of the streams.
        next_snake: SnakeBeta of the next layer, applied to the result.
        plain: True to also return the result without `next_snake`.

    Shapes: x, activated, results [B, T, C]; rows [B, 3] int32, see streams.py.
    """
    B, T, C = x.shape
    M, wide = B * T, packed.wide
    out, result = x.new_empty(B, T, C) if plain else None, x.new_empty(B, T, C)
    tile = tile_for(M, C)
    _unit[(-(-M // tile.rows),)](
        activated,
        past.memory,
        rows,
        wide.weight,
        wide.bias,
        packed.between.rate,
        packed.between.gain,
        packed.point,
        packed.point_bias,
        x,
        out,
        result,
        next_snake.rate,
        next_snake.gain,
        M,
        T,
        B * wide.left * C,
        wide.left,
        wide.dilation,
        *past.strides,
        C=C,
        K=wide.taps * C,
        C0=packed.tiles[0],
        C1=packed.tiles[1],
        BM=tile.rows,
        BK=tile.depth_for(x.dtype),
        PRECISION="tf32" if x.dtype is torch.bfloat16 else "ieee",
        PDL=pdl(),
        launch_pdl=pdl(),
        num_warps=tile.warps,
        num_stages=tile.stages_for(x.dtype),
    )
    return ConvolutionOutput(out, result)
