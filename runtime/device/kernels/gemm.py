"""Matrix product kernel for up to 512 rows and a large matrix.

Each program computes BN outputs of BM rows. The product is computed as weights [BN, BK] @ inputs [BK, BM]. The
batch is the small dimension of the tensor core instructions, and its size does not change the order of the sums over K.
Therefore the result of a row does not depend on the other rows of the batch.

The same launch applies the residual or the gate. A preceding norm is a separate launch, which takes about a
microsecond. Otherwise every program would have to repeat the norm. For up to eight rows,
runtime/device/kernels/small_m_gemm.py computes the norm and the product in one launch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from runtime.device.fused import Norm, PromptHidden
from runtime.device.kernels import count_stages, launch_options
from runtime.device.kernels.split_k import LINE_BITS, split_k_gemm

MAX_ROWS = 512
MANY_ROWS = tl.constexpr(64)  # Minimum number of weight rows per program for the largest tensor core instruction.
# Number of parts into which the dimension K is divided. The sums of the parts are added in a fixed order.
PARTS = 4


class Tiles(NamedTuple):
    """Tile sizes and launch options of a matrix product.

    The inner dimension K is divided into `parts` parts (1 or 4), whose sums are added in order. A program with few
    outputs computes the parts in parallel, one per warp. A program with many outputs computes one part after another.
    With `split_k`, each part is a separate program, and a second launch adds the parts. With `prefetch`, a program
    loads weights into the cache while the previous kernel still runs. `BM` is the number of rows per program. If `BM`
    is 0, a program has all rows, up to 64.
    """

    BN: int
    BK: int
    parts: int
    warps: int
    stages: int
    prefetch: bool = False
    split_k: bool = False
    BM: int = 0


@triton.jit
def _prefetch_rows(w, n, K: tl.constexpr, BN: tl.constexpr):
    """Prefetch the rows n to n + BN of a weight matrix into the L2 cache."""
    LINE: tl.constexpr = LINE_BITS // w.dtype.element_ty.primitive_bitwidth
    COUNT: tl.constexpr = BN * K // LINE
    STEP: tl.constexpr = 256 if COUNT % 256 == 0 else 128
    lines = tl.arange(0, STEP)
    for first in range(0, COUNT, STEP):
        at = w + n.to(tl.int64) * K + (first + lines) * LINE
        tl.inline_asm_elementwise("prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [at], tl.int32, False, 1)


@triton.jit
def _sum_in_order(parts):
    """Add the parts in order.

    Shapes: parts [4, A, B]; result [A, B].
    """
    A: tl.constexpr = parts.shape[1]
    B: tl.constexpr = parts.shape[2]
    even, odd = tl.split(tl.permute(parts.reshape(2, 2, A, B), (2, 3, 0, 1)))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first + second + third + fourth


@triton.jit(do_not_specialize=["M"])
def _gemm_kernel(
    x,
    w,
    scale,
    bias,
    residual,
    out,
    M,
    x_stride,
    residual_stride,
    out_stride,
    N: tl.constexpr,
    K: tl.constexpr,
    BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    GATED: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    PARTS: tl.constexpr,
    PREFETCH: tl.constexpr,
    PDL: tl.constexpr,
):
    # Shapes: x [M, K]; w [N, K], or [2 N, K] with the gate first; scale [N] or [2 N], or None if w has the dtype of x;
    # bias [N]; residual, out [M, N]. Consecutive programs use the same weights and therefore find them in the cache.
    n0 = tl.program_id(1) * BN
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = n0 + tl.arange(0, BN)
    m_mask = m < M
    is_divisible: tl.constexpr = N % BN == 0 and K % BK == 0  # True if all tiles are completely inside the matrix.
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        if PREFETCH:
            _prefetch_rows(w, n0, K, BN)
            if GATED:
                _prefetch_rows(w, N + n0, K, BN)
        tl.extra.cuda.gdc_wait()

    part_k: tl.constexpr = BK // PARTS
    stretch: tl.constexpr = K // PARTS
    tile: tl.constexpr = BN * (1 + GATED)
    dtype = x.dtype.element_ty
    row = tl.arange(0, tile)  # Indices of the tile's weight rows. Rows of the gate come first.
    row, n_mask = n0 + row % BN + row // BN * N, n0 + row % BN < N
    acc = tl.zeros((tile, BM), tl.float32)
    if PARTS == 1 or tile >= MANY_ROWS:
        k = tl.arange(0, BK)
        w_at = w + row[:, None].to(tl.int64) * K + k[None, :]
        x_at = x + m[None, :] * x_stride + k[:, None]
        part = tl.zeros((tile, BM), tl.float32)
        for start in range(0, K, BK):
            k_mask = start + k < K
            rows = tl.load(x_at + start, m_mask[None, :] if is_divisible else m_mask[None, :] & k_mask[:, None], 0.0)
            w_tile = (
                tl.load(w_at + start) if is_divisible else tl.load(w_at + start, n_mask[:, None] & k_mask[None, :], 0.0)
            )
            part = tl.dot(w_tile.to(dtype), rows, part, input_precision="ieee")
            if PARTS > 1:
                tl.static_assert(stretch % BK == 0)
                # The second assertion is needed because Triton 3.6 computes wrong products of upcast int8 weights
                # if each step has its own sum.
                tl.static_assert(stretch > BK or w.dtype.element_ty == dtype)
                if (start + BK) % stretch == 0:
                    acc += part
                    part = tl.zeros((tile, BM), tl.float32)
        if PARTS == 1:
            acc = part
    else:
        tl.static_assert(is_divisible)
        # Part p sums the p-th range of K. A step processes `part_k` elements of every part.
        p = tl.arange(0, PARTS)
        k = p[:, None] * stretch + tl.arange(0, part_k)[None, :]
        w_at = w + row[None, :, None].to(tl.int64) * K + k[:, None, :]
        x_at = x + m[None, None, :] * x_stride + k[:, :, None]
        sums = tl.zeros((PARTS, tile, BM), tl.float32)
        for start in range(0, stretch, part_k):
            rows = tl.load(x_at + start, m_mask[None, None, :], 0.0)
            sums = tl.dot(tl.load(w_at + start).to(dtype), rows, sums, input_precision="ieee")
        acc = _sum_in_order(sums)

    if scale is not None:
        acc *= tl.load(scale + row, n_mask, 0.0)[:, None]
    if GATED:
        gate, up = tl.split(tl.permute(acc.reshape(2, BN, BM), (1, 2, 0)))
        gate = gate.to(dtype).to(tl.float32)
        acc = (gate / (1 + tl.exp(-gate))).to(dtype).to(tl.float32) * up.to(dtype).to(tl.float32)
    if BIAS:
        acc += tl.load(bias + n, n < N, 0.0).to(tl.float32)[:, None]
    at = m[None, :] * out_stride + n[:, None]
    inside = m_mask[None, :] if is_divisible else m_mask[None, :] & (n < N)[:, None]
    if RESIDUAL:
        # The product is rounded before the residual is added, like the result of a separate operation.
        residual_values = tl.load(residual + m[None, :] * residual_stride + n[:, None], inside, 0.0)
        acc = acc.to(dtype).to(tl.float32) + residual_values.to(tl.float32)
    tl.store(out + at, acc.to(dtype), inside)


@triton.jit
def _norm_kernel(x, weight, rows, frame, hidden, out, K, eps, x_stride, BK: tl.constexpr, PDL: tl.constexpr):
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    m = tl.program_id(0)
    k = tl.arange(0, BK)
    at = x + m * x_stride
    if hidden is not None:
        slot = tl.load(rows + m)
        at = tl.where(tl.load(frame + slot) == 0, hidden + slot * K, at)
    row = tl.load(at + k, k < K, 0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(row * row) / K + eps)
    dtype = out.dtype.element_ty
    tl.store(out + m * K + k, (row * scale).to(dtype) * tl.load(weight + k, k < K, 0.0), k < K)


def gemm(
    x: Tensor,
    weight: Tensor,
    *,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    out: Tensor | None = None,
    tiles: Tiles | None = None,
) -> Tensor:
    """Return residual + x @ weight.T + bias.

    The result is written to `out`, which may be strided, or to a new tensor.

    Shapes: x [M, K]; weight [N, K]; scale [N] float32, for int8 weights; bias [N]; residual, out, result [M, N].
    """
    return _launch(x, weight, scale, bias, residual, out, weight.shape[0], False, tiles)


def swiglu(x: Tensor, weight: Tensor, *, scale: Tensor | None = None, tiles: Tiles | None = None) -> Tensor:
    """Return silu(gate) * up, where gate and up are the halves of x @ weight.T.

    Shapes: x [M, K]; weight [2 N, K], the gate's rows first; scale [2 N] float32, for int8 weights; result [M, N].
    """
    return _launch(x, weight, scale, None, None, None, weight.shape[0] // 2, True, tiles)


def norm(x: Tensor, params: Norm, prompt_hidden: PromptHidden | None = None) -> Tensor:
    """Return the RMSNorm of each row of x, or of `prompt_hidden` for slots without a frame.

    Shapes: x, result [M, K].
    """
    M, K = x.shape
    assert x.stride(1) == 1
    if prompt_hidden is not None:
        assert len(prompt_hidden.rows) == M
        assert prompt_hidden.hidden.shape == (len(prompt_hidden.frame), K)
        assert all(tensor.is_contiguous() for tensor in prompt_hidden)
    out = torch.empty((M, K), device=x.device, dtype=x.dtype)
    _norm_kernel[(M,)](
        x,
        params.weight,
        *(prompt_hidden or (None, None, None)),
        out,
        K,
        params.eps,
        x.stride(0),
        BK=triton.next_power_of_2(K),
        num_warps=4,
        **launch_options(),
    )
    return out


def _launch(
    x: Tensor,
    weight: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    residual: Tensor | None,
    out: Tensor | None,
    N: int,
    gated: bool,
    tiles: Tiles | None,
) -> Tensor:
    M, K = x.shape
    assert x.stride(1) == 1
    assert weight.is_contiguous()
    tiles = tiles or choose_tiles(N, K, M, gated=gated, eight_bits=weight.dtype is torch.int8)
    BM = tiles.BM or min(64, max(16, triton.next_power_of_2(M)))
    if out is None:
        out = torch.empty((M, N), device=x.device, dtype=x.dtype)
    assert out.shape == (M, N)
    assert out.stride(1) == 1
    # Bytes of x and of the weights (including gate weights) that are loaded per step.
    step_bytes = tiles.BK * (BM * x.itemsize + tiles.BN * (1 + gated) * weight.itemsize)
    fitting = count_stages(tiles.stages, step_bytes)
    if tiles.split_k:
        assert not gated
        options = {"BN": tiles.BN, "BK": tiles.BK, "parts": tiles.parts, "warps": tiles.warps, "stages": fitting}
        split_k_gemm(x, weight, scale, bias, residual, out, BM=BM, prefetch=tiles.prefetch, **options)
        return out
    _gemm_kernel[(triton.cdiv(M, BM), triton.cdiv(N, tiles.BN))](
        x,
        weight,
        scale,
        bias if bias is not None else x,
        residual if residual is not None else x,
        out,
        M,
        x.stride(0),
        residual.stride(0) if residual is not None else 0,
        out.stride(0),
        N=N,
        K=K,
        BIAS=bias is not None,
        RESIDUAL=residual is not None,
        GATED=gated,
        BM=BM,
        BN=tiles.BN,
        BK=tiles.BK,
        PARTS=tiles.parts,
        PREFETCH=tiles.prefetch,
        num_warps=tiles.warps,
        num_stages=fitting,
        **launch_options(),
    )
    return out


def choose_tiles(N: int, K: int, rows: int, *, gated: bool, eight_bits: bool = False) -> Tiles:
    """Return the fastest tiles for a matrix shape and a number of rows.

    The tiles were measured with `python -m benchmarks.kernels tiles` on an H200 (up to 64 rows, and `split_k`) and on
    an H100. `parts` determines the order of sums and depends on the matrix only. With more rows than MAX_SMALL_ROWS,
    each program has more rows and outputs. Otherwise many programs would read the same weights.

    With `eight_bits`, programs have enough weight rows for Hopper's wgmma instruction. With fewer weight rows, Triton
    would use another instruction (mma), which sums the products in another order and so changes the last bits of a row.
    """
    candidates = TILES.get((N, K, gated))
    if candidates is None:
        return Tiles(32, min(256, triton.next_power_of_2(K)), 1, 4, 3)
    tiles = candidates[0 if rows <= 16 else 1 if rows <= 32 else 2]
    if rows > MAX_SMALL_ROWS and (large := LARGE.get((N, K, gated))) is not None:
        tiles = large[0 if rows <= 128 else 1 if rows <= 256 else 2]
    if eight_bits and not has_many_rows(tiles, gated=gated):
        return SPLIT if N < MANY_OUTPUTS else WIDE
    return tiles


def has_many_rows(tiles: Tiles, *, gated: bool) -> bool:
    """True if a program has enough weight rows for the largest tensor core instruction.

    With `gated`, the number includes the rows of the gate.
    """
    return tiles.BN * (1 + gated) >= MANY_ROWS.value


MAX_SMALL_ROWS = 64  # Maximum number of rows that a single program processes.
# Tiles for int8 weights, which replace a tuned tile with too few weight rows for the largest MMA instruction. `WIDE`
# is for matrices with many outputs. `SPLIT` is for matrices with few outputs: it divides K, so that more
# multiprocessors are used.
WIDE, SPLIT = Tiles(64, 128, PARTS, 4, 4), Tiles(64, 128, PARTS, 4, 4, split_k=True)
MANY_OUTPUTS = 2048
# Tiles for 65 to 128 rows, for up to 256 rows, and for more rows, keyed by the number of outputs, the number of inputs,
# and whether there is a gate.
LARGE: dict[tuple[int, int, bool], tuple[Tiles, Tiles, Tiles]] = {
    (4096, 1024, False): (Tiles(64, 128, 4, 8, 4), Tiles(128, 128, 4, 8, 4, BM=64), Tiles(128, 64, 4, 8, 4, BM=128)),
    (1024, 2048, False): (
        Tiles(64, 128, 4, 4, 4, split_k=True, BM=64),
        Tiles(128, 64, 4, 8, 4, split_k=True, BM=64),
        Tiles(64, 128, 4, 4, 4, BM=64),
    ),
    (3072, 1024, True): (
        Tiles(32, 128, 4, 8, 4, BM=128),
        Tiles(32, 64, 4, 4, 4, BM=64),
        Tiles(32, 64, 4, 4, 3, BM=128),
    ),
    (4096, 2048, False): (Tiles(64, 128, 4, 8, 4), Tiles(128, 128, 4, 8, 4, BM=64), Tiles(128, 64, 4, 8, 4, BM=128)),
    (6144, 2048, True): (Tiles(32, 64, 4, 4, 4, BM=64), Tiles(32, 64, 4, 8, 4, BM=128), Tiles(64, 64, 4, 8, 4, BM=128)),
    (1024, 3072, False): (
        Tiles(64, 128, 4, 8, 4, split_k=True, BM=64),
        Tiles(64, 64, 4, 8, 4, split_k=True, BM=128),
        Tiles(128, 64, 4, 8, 4, split_k=True, BM=128),
    ),
    (2048, 1024, False): (
        Tiles(32, 256, 4, 4, 4, True),
        Tiles(64, 128, 4, 4, 4, BM=64),
        Tiles(128, 128, 4, 8, 3, BM=64),
    ),
    (2048, 2048, False): (
        Tiles(64, 128, 4, 4, 4, split_k=True, BM=128),
        Tiles(64, 128, 4, 4, 4, BM=64),
        Tiles(128, 128, 4, 8, 4, BM=64),
    ),
    (2048, 6144, False): (
        Tiles(64, 128, 4, 8, 4, split_k=True, BM=128),
        Tiles(128, 64, 4, 8, 4, split_k=True, BM=128),
        Tiles(128, 128, 4, 8, 4, BM=64),
    ),
}
# Tiles for up to 16 rows, for up to 32 rows, and for more rows, with the same keys. The matrices are those of the code
# predictor and of both talkers.
TILES: dict[tuple[int, int, bool], tuple[Tiles, Tiles, Tiles]] = {
    (4096, 1024, False): (Tiles(64, 128, 4, 4, 6, True), Tiles(64, 128, 4, 4, 6), Tiles(64, 128, 4, 8, 4)),
    (1024, 2048, False): (Tiles(16, 256, 4, 4, 6, True), Tiles(16, 512, 4, 4, 4, True), Tiles(16, 256, 4, 4, 4, True)),
    (3072, 1024, True): (Tiles(32, 128, 4, 4, 6), Tiles(32, 128, 4, 4, 6), Tiles(32, 128, 4, 4, 4)),
    (1024, 3072, False): (Tiles(16, 512, 4, 4, 6, True), Tiles(16, 512, 4, 4, 4, True), Tiles(16, 256, 4, 4, 4, True)),
    (2048, 1024, False): (Tiles(64, 128, 4, 4, 6, True), Tiles(64, 128, 4, 4, 6, True), Tiles(32, 256, 4, 4, 4, True)),
    (4096, 2048, False): (Tiles(64, 128, 4, 4, 6), Tiles(64, 128, 4, 4, 6), Tiles(64, 128, 4, 8, 4)),
    (2048, 2048, False): (Tiles(64, 128, 4, 4, 6), Tiles(64, 128, 4, 4, 6), Tiles(32, 256, 4, 4, 4)),
    (6144, 2048, True): (Tiles(32, 128, 4, 4, 6), Tiles(64, 128, 4, 4, 3), Tiles(64, 128, 4, 8, 3)),
    (2048, 6144, False): (Tiles(64, 256, 4, 4, 4), Tiles(64, 128, 4, 4, 6), Tiles(64, 128, 4, 8, 4)),
    (3072, 2048, False): (Tiles(64, 128, 4, 4, 6), Tiles(64, 128, 4, 4, 6), Tiles(64, 128, 4, 8, 6)),
    (3072, 1024, False): (Tiles(64, 128, 4, 4, 6), Tiles(64, 128, 4, 4, 6), Tiles(64, 128, 4, 4, 4)),
}
