"""Matrix product kernel for the causal convolutions of Code2Wav over [B, T, C].

A convolution with ``taps`` taps is one product over K = taps * C. Row t of the left matrix concatenates the inputs of
output t. The left matrix is never stored: the kernel reads inputs from the chunk, and earlier inputs from the stream's
state. A transposed convolution has ``stride`` outputs per row, and a linear layer has one tap. The kernel applies bias,
activation, residual and the next layer's SnakeBeta before it stores the result.

K is summed in ascending order for all tile sizes, so outputs are bitwise independent of batch and chunks. Tiles have at
least 64 rows, because the compiler uses different instructions for smaller tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
import triton
import triton.language as tl
from torch import Tensor

from runtime.device.kernels import count_stages, pdl
from runtime.device.kernels.code2wav.snake import Snake, snake
from runtime.device.kernels.code2wav.streams import ROW, PastInputs, store_past_inputs, wait_for_previous


class Activation(IntEnum):
    """Activation that is applied to a product before the residual is added."""

    NOTHING = 0
    GELU = 1
    SWIGLU = 2  # Activation that computes each output from two adjacent columns: gate and up.


GELU = tl.constexpr(int(Activation.GELU))
SWIGLU = tl.constexpr(int(Activation.SWIGLU))


@dataclass(frozen=True, slots=True)
class PackedConvolution:
    """Weights of a convolution or a linear layer in the layout of the kernel.

    Shapes: weight [N, taps * C], oldest tap first; bias [N] float32 or None.
    """

    weight: Tensor
    bias: Tensor | None
    inputs: int
    taps: int = 1
    dilation: int = 1

    @property
    def width(self) -> int:
        return self.weight.shape[0]

    @property
    def left(self) -> int:
        """Return the number of earlier time steps that an output depends on."""
        return (self.taps - 1) * self.dilation


@dataclass(frozen=True, slots=True)
class ConvolutionTile:
    rows: int
    columns: int
    warps: int
    stages: int
    depth: int = 64  # Number of elements of the dimension K that one step processes.

    def depth_for(self, dtype: torch.dtype) -> int:
        return self.depth if dtype is torch.bfloat16 else self.depth // 2

    def stages_for(self, dtype: torch.dtype) -> int:
        """Return the number of pipeline stages of the loop that fit into this GPU's shared memory."""
        return count_stages(self.stages, (self.rows + self.columns) * self.depth_for(dtype) * dtype.itemsize)


WIDE = ConvolutionTile(128, 256, 8, 3)
SQUARE = ConvolutionTile(128, 128, 8, 3)
TILES = (
    WIDE,
    SQUARE,
    ConvolutionTile(64, 128, 4, 4),
    ConvolutionTile(64, 64, 4, 4, 128),
    ConvolutionTile(64, 32, 4, 5, 128),
    ConvolutionTile(64, 16, 4, 6, 128),
)
MIN_PROGRAMS = 128  # Minimum number of programs that use all multiprocessors of a GPU.
LINE = tl.constexpr(64)  # Number of 16-bit elements in a cache line.
# Tile of products that also return sums of squares. These products return one sum per tile, and the kernel that adds
# the sums expects a fixed tile width.
NORM_TILE = ConvolutionTile(64, 16, 4, 6, 128)
NORM_COLUMNS = tl.constexpr(NORM_TILE.columns)


def tile_for(M: int, N: int, element_bytes: int = 2) -> ConvolutionTile:
    """Return the largest tile that gives the GPU enough programs and needs little padding.

    The tile size does not change results.

    Args:
        M, N: Numbers of rows and columns of the result.
        element_bytes: Bytes per element.
    """
    tiles = TILES if element_bytes == 2 else TILES[2:]
    for tile in tiles:
        columns = -(-N // tile.columns)
        if 3 * columns * tile.columns <= 4 * N and -(-M // tile.rows) * columns >= MIN_PROGRAMS:
            return tile
    return tiles[-1]


@triton.jit
def _weights_to_cache(weight, column, N: tl.constexpr, K: tl.constexpr, BN: tl.constexpr):
    """Prefetch BN columns of weights into the L2 cache without waiting."""
    BLOCK: tl.constexpr = 512
    last = (N * K - 1) // LINE
    for line in range(column * K // LINE, (column + BN) * K // LINE, BLOCK):
        at = weight + tl.minimum(line + tl.arange(0, BLOCK), last) * LINE
        tl.inline_asm_elementwise("prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [at], tl.int32, False, 1)


@triton.jit
def _pairwise(each, ROWS: tl.constexpr, PARTS: tl.constexpr):
    """Return the sum of each row in a fixed order, unlike ``tl.sum``.

    Shapes: each [ROWS, PARTS], where PARTS is a power of two; result [ROWS].
    """
    LEFT: tl.constexpr = PARTS // 2
    if LEFT == 0:
        total = tl.reshape(each, (ROWS,))
    else:
        first, second = tl.split(tl.reshape(each, (ROWS, LEFT, 2)))
        total = _pairwise(first + second, ROWS, LEFT)
    return total


@triton.jit(do_not_specialize=["M", "T", "total", "left", "dilation"])
def _convolve(
    x,
    memory,
    rows,
    weight,
    bias,
    residual,
    out,
    activated,
    rate,
    gain,
    squares,
    squares_out,
    M,
    T,
    total,
    left,
    dilation,
    copy_stride,
    slot_stride,
    eps,
    C: tl.constexpr,
    K: tl.constexpr,
    N: tl.constexpr,
    PARTS: tl.constexpr,
    AFTER: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    PRECISION: tl.constexpr,
    PDL: tl.constexpr,
    AHEAD: tl.constexpr,
):
    columns: tl.constexpr = (N + BN - 1) // BN
    width: tl.constexpr = N // 2 if AFTER == SWIGLU else N
    column, tile = tl.program_id(0) % columns, tl.program_id(0) // columns
    if AHEAD:
        _weights_to_cache(weight, column * BN, N, K, BN)
    wait_for_previous(PDL)
    if memory is not None:
        programs = tl.num_programs(0)
        store_past_inputs(x, memory, rows, tl.program_id(0), programs, T, total, left, copy_stride, slot_stride, C)
    m = tile * BM + tl.arange(0, BM)
    n = column * BN + tl.arange(0, BN)
    inside = m < M
    m = tl.minimum(m, M - 1)
    if memory is not None:
        row, t = m // T, m % T
        slot, parity = tl.load(rows + row * ROW), tl.load(rows + row * ROW + 1)
        past = parity * copy_stride + slot * slot_stride
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK):
        ks = k + tl.arange(0, BK)
        if memory is None:
            addresses = x + m[:, None] * C + ks[None, :]
        else:
            if C % BK == 0:  # All columns of the step belong to one tap of the convolution.
                source = (t + (k // C) * dilation - left)[:, None]
                channel = (tl.multiple_of(k % C, BK) + tl.arange(0, BK))[None, :]
            else:
                source = t[:, None] + ((ks // C) * dilation - left)[None, :]
                channel = (ks % C)[None, :]
            new = x + (row[:, None] * T + source) * C + channel
            old = memory + past[:, None] + (left + source) * C + channel
            addresses = tl.where(source >= 0, new, old)
        if K % BK == 0:
            a = tl.load(addresses, inside[:, None], 0.0)
        else:
            a = tl.load(addresses, inside[:, None] & (ks < K)[None, :], 0.0)
        if K % BK == 0 and N % BN == 0:
            w = tl.load(weight + n[:, None] * K + ks[None, :])
        else:
            w = tl.load(weight + n[:, None] * K + ks[None, :], (n < N)[:, None] & (ks < K)[None, :], 0.0)
        acc = tl.dot(a, tl.trans(w), acc, input_precision=PRECISION)
    if squares is not None:
        part = tl.arange(0, PARTS)
        parts: tl.constexpr = (C + NORM_COLUMNS - 1) // NORM_COLUMNS
        each = tl.load(squares + m[:, None] * parts + part[None, :], (part < parts)[None, :], 0.0)
        acc *= tl.rsqrt(_pairwise(each, BM, PARTS) / C + eps)[:, None]
    if bias is not None:
        acc += tl.load(bias + n, n < N, 0.0)[None, :]
    if AFTER == SWIGLU:
        gate, up = tl.split(tl.reshape(acc, (BM, BN // 2, 2)))
        y = gate / (1 + tl.exp(-gate)) * up
        n = column * (BN // 2) + tl.arange(0, BN // 2)
    else:
        y = acc
        if AFTER == GELU:
            y = 0.5 * y * (1 + tl.erf(y * 0.7071067811865476))
    at = m[:, None] * width + n[None, :]
    in_bounds = inside[:, None] & (n < width)[None, :]
    if residual is not None:
        y += tl.load(residual + at, in_bounds, 0.0).to(tl.float32)
    if squares_out is not None:
        tl.store(squares_out + m * columns + column, tl.sum(tl.where(in_bounds, y * y, 0.0), 1), inside)
    if out is not None:
        tl.store(out + at, y, in_bounds)
    if activated is not None:
        y = snake(y, tl.load(rate + n, n < width, 0.0)[None, :], tl.load(gain + n, n < width, 0.0)[None, :])
        tl.store(activated + at, y, in_bounds)


@dataclass(frozen=True, slots=True)
class ConvolutionOutput:
    """Results of a product, before and after the SnakeBeta activation of the next layer.

    A result that was not requested is None.
    """

    plain: Tensor | None
    activated: Tensor | None
    squares: Tensor | None = None  # Sums of squares per row and tile [B * T, tiles], for the next norm.

    @property
    def values(self) -> Tensor:
        assert self.plain is not None
        return self.plain

    @property
    def after_snake(self) -> Tensor:
        assert self.activated is not None
        return self.activated

    def view(self, *shape: int) -> ConvolutionOutput:
        return ConvolutionOutput(self.values.view(shape), self.after_snake.view(shape))


def convolve(
    packed: PackedConvolution,
    x: Tensor,
    rows: Tensor,
    past: PastInputs | None = None,
    *,
    residual: Tensor | None = None,
    next_snake: Snake | None = None,
    plain: bool = True,
    after: Activation = Activation.NOTHING,
    norm: tuple[Tensor | None, float] | None = None,
    squares: bool = False,
    tile: ConvolutionTile | None = None,
) -> ConvolutionOutput:
    """Compute a causal convolution or a linear layer over a chunk of every stream.

    Args:
        past: Earlier inputs of the streams, which the kernel updates, or None for one tap.
        residual: Tensor to add to the result, or None.
        next_snake: SnakeBeta of the next layer. If not None, the activated result is also returned.
        plain: True to return the result without SnakeBeta.
        after: Activation before the residual is added.
        norm: Sums of squares of x, and an epsilon. x is divided by its root mean square. `packed` includes the norm's
            weight.
        squares: True to return sums of squares for a following norm.

    Shapes: x [B, T, C]; rows [B, 3] int32, see streams.py; residual, results [B, T, N], or [B, T, N / 2] for SWIGLU.
    """
    B, T, C = x.shape
    M, N = B * T, packed.width
    K = packed.taps * C
    assert x.is_contiguous()
    assert packed.weight.shape[1] == K
    width = N // 2 if after is Activation.SWIGLU else N
    out = x.new_empty(B, T, width) if plain else None
    activated = x.new_empty(B, T, width) if next_snake is not None else None
    assert (past is None) == (packed.left == 0)
    strides = past.strides if past is not None else (0, 0)
    tile = NORM_TILE if squares else tile or tile_for(M, N, x.element_size())
    columns = -(-N // tile.columns)
    sums = x.new_empty(M, columns, dtype=torch.float32) if squares else None
    grid = (-(-M // tile.rows) * columns,)
    _convolve[grid](
        x,
        past.memory if past is not None else None,
        rows,
        packed.weight,
        packed.bias,
        residual,
        out,
        activated,
        next_snake.rate if next_snake is not None else None,
        next_snake.gain if next_snake is not None else None,
        norm[0] if norm is not None else None,
        sums,
        M,
        T,
        B * packed.left * C,
        packed.left,
        packed.dilation,
        *strides,
        norm[1] if norm is not None else 0.0,
        C=C,
        K=K,
        N=N,
        PARTS=triton.next_power_of_2(-(-C // NORM_TILE.columns)),
        AFTER=int(after),
        BM=tile.rows,
        BN=tile.columns,
        BK=tile.depth_for(x.dtype),
        PRECISION="tf32" if x.dtype is torch.bfloat16 else "ieee",
        PDL=pdl(),
        AHEAD=pdl() and tile.rows >= M,
        launch_pdl=pdl(),
        num_warps=tile.warps,
        num_stages=tile.stages_for(x.dtype),
    )
    return ConvolutionOutput(out, activated, sums)
