"""Matrix product kernel for up to eight input rows, which loads weights early.

Such a product spends most of its time reading weights, and a frame of a few rows is a chain of dependent products.
Therefore a program starts loading all its weights before it waits for the previous kernel (programmatic dependent
launch). Only the load of the rows, the products and the store remain after the wait. Every program repeats the
preceding norm, which takes less time than a separate launch.

The inner dimension K is divided and summed as in runtime/device/kernels/gemm.py and its norm kernel, so results are
bitwise equal. Int8 weights stay int8 in shared memory. If a thread has enough registers, weights are upcast while the
previous kernel still runs. The kernel is written in Gluon, Triton's lower-level language with explicit layouts and
memory operations.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from runtime.device.fused import Norm
from runtime.device.kernels import pdl, shared_memory, staging, wgmma
from runtime.device.kernels.gemm import PARTS

MAX_ROWS = 8  # Number of rows that one tensor core instruction processes.
# Maximum shared memory in bytes that the sums of the norm need.
RESERVED_BYTES = 1024
# Maximum number of 16-bit weights per thread. They need 192 of the 255 registers of a thread.
MAX_AHEAD = gl.constexpr(384)


class SmallTiles(NamedTuple):
    """Tile sizes of a matrix product.

    A program multiplies `rows` input rows by `BN` weight rows. `rows` is 1 or 8, which limits the number of compiled
    kernels. A step processes `BK` elements of every part of K. With `rows_resident`, shared memory holds the complete
    input rows, otherwise only the elements of one step.
    """

    BN: int
    rows: int
    BK: int
    rows_resident: bool


# Keys: number of outputs, number of inputs, True if there is a gate. Values: weight rows per program for one input row
# and for more input rows, measured on an H200, or None if runtime/device/kernels/gemm.py is faster.
TILES: dict[tuple[int, int, bool], tuple[int, int | None]] = {
    (4096, 1024, False): (32, 32),
    (1024, 2048, False): (16, 16),
    (3072, 1024, True): (64, 64),
    (1024, 3072, False): (16, 16),
    (2048, 1024, False): (16, 16),
    (4096, 2048, False): (16, 32),
    (2048, 2048, False): (16, 16),
    (6144, 2048, True): (16, None),
    (2048, 6144, False): (16, 16),
    (3072, 2048, False): (16, 16),
    (3072, 1024, False): (32, 32),
}
# Values in the format of TILES for int8 weights. The number of registers limits their tiles (MAX_AHEAD).
EIGHT_BITS: dict[tuple[int, int, bool], tuple[int, int | None]] = {
    (3072, 1024, True): (32, 32),
    (6144, 2048, True): (16, 16),
}


def choose_tiles(x: Tensor, weight: Tensor, *, gated: bool = False) -> SmallTiles | None:
    """Return the tiles for a product on this GPU, or None if another kernel is faster.

    Shapes: x [M, K]; weight [N, K], or [2 N, K] if gated.
    """
    M, K = x.shape
    shape = len(weight) // (1 + gated), K, gated
    candidates = TILES.get(shape)
    if weight.itemsize < x.itemsize:
        # The tensor core instruction wgmma exists only on Hopper GPUs. Without it, the last bits of the results would
        # differ from those of gemm.py (see `choose_tiles` in gemm.py).
        candidates = EIGHT_BITS.get(shape, candidates) if wgmma() else None
    if candidates is None or M > MAX_ROWS or not pdl():
        return None
    BN = candidates[M > 1]
    return None if BN is None else fit_tiles(BN, M, K, x.itemsize, weight.itemsize)


def fit_tiles(BN: int, M: int, K: int, itemsize: int, weight_itemsize: int) -> SmallTiles | None:
    """Return tiles with BN weight rows per program, or None if shared memory is too small."""
    stretch, rows = K // PARTS, 1 if M == 1 else MAX_ROWS
    BK = stretch & -stretch  # Largest power of two that divides `stretch`.
    for rows_resident, inputs in ((True, K), (False, PARTS * BK)):
        if weight_itemsize * BN * K + itemsize * rows * inputs <= shared_memory() - RESERVED_BYTES:
            return SmallTiles(BN, rows, BK, rows_resident)
    return None


@gluon.jit
def _copy_weights(
    w,
    N: gl.constexpr,
    K: gl.constexpr,
    GATED: gl.constexpr,
    BN: gl.constexpr,
    PARTS: gl.constexpr,
    BK: gl.constexpr,
):
    """Start copying a program's weight rows to shared memory, and return this memory."""
    STEPS: gl.constexpr = K // PARTS // BK
    at = staging.weights_at(w, N, K, GATED, BN, PARTS, BK)
    staged = staging.allocate(w.dtype.element_ty, STEPS, BN, PARTS, BK)
    for step in gl.static_range(STEPS):
        async_copy.async_copy_global_to_shared(staged.index(step), at + step * BK)
    async_copy.commit_group()
    return staged


@gluon.jit
def _upcast_operands(staged, STEPS: gl.constexpr, of_sums: gl.constexpr):
    """Load the weights of all steps with `staging.upcast_operand`."""
    operands = ()
    for step in gl.static_range(STEPS):
        operands += (staging.upcast_operand(staged.index(step), of_sums),)  # type: ignore[assignment]
    return operands


@gluon.jit
def _zero_operands(
    dtype: gl.constexpr,
    STEPS: gl.constexpr,
    PARTS: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
    of_sums: gl.constexpr,
):
    """Return operands of zeros with the types of `_upcast_operands`."""
    operands = ()
    for _ in gl.static_range(STEPS):
        zeros = gl.zeros([PARTS, BN, BK], dtype, gl.DotOperandLayout(0, of_sums, 2))
        operands += (zeros,)  # type: ignore[assignment]
    return operands


@gluon.jit(do_not_specialize=["M"])
def _small_m_gemm_kernel(
    x,
    w,
    scale,
    norm,
    residual,
    out,
    M,
    eps,
    x_stride,
    residual_stride,
    out_stride,
    N: gl.constexpr,
    K: gl.constexpr,
    NORM: gl.constexpr,
    RESIDUAL: gl.constexpr,
    GATED: gl.constexpr,
    ROWS: gl.constexpr,
    BM: gl.constexpr,
    BN: gl.constexpr,
    PARTS: gl.constexpr,
    BK: gl.constexpr,
    ROWS_RESIDENT: gl.constexpr,
    PDL: gl.constexpr,
):
    # Shapes: x [M, K], of which ROWS rows are read; w [N, K], or [2 N, K] with the gate first; scale [N] or [2 N], or
    # None if w has the dtype of x; norm [K]; residual, out [M, N]. Each warp sums one part of the dimension K.
    STRETCH: gl.constexpr = K // PARTS
    STEPS: gl.constexpr = STRETCH // BK
    OUTPUTS: gl.constexpr = BN // (1 + GATED)
    NARROW: gl.constexpr = scale is not None
    # True if weights are upcast before the input rows are available. This is the case if a thread has enough registers.
    UPCASTS_AHEAD: gl.constexpr = NARROW and BN * K <= MAX_AHEAD * 32 * PARTS
    dtype: gl.constexpr = x.dtype.element_ty
    staged = _copy_weights(w, N, K, GATED, BN, PARTS, BK)
    if scale is not None:
        scales = staging.scales_of(scale, N, GATED, OUTPUTS, PARTS)
    if PDL:
        gdc_launch_dependents()
    of_sums: gl.constexpr = staging.sums_layout(PARTS)
    if UPCASTS_AHEAD:
        # M is never 0. The condition `M > 0` prevents an optimization of the compiler, which would upcast the weights
        # only after the wait to save registers.
        ahead = _zero_operands(dtype, STEPS, PARTS, BN, BK, of_sums)
        if M > 0:
            async_copy.wait_group(0)
            ahead = _upcast_operands(staged, STEPS, of_sums)
    rows = staging.allocate(dtype, STEPS if ROWS_RESIDENT else 1, ROWS, PARTS, BK)
    if NORM:
        # The layout is the same as in the separate norm kernel, because the layout determines the order in which values
        # are added.
        gl.static_assert(STEPS == 1)
        along: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [1, PARTS], [1, 0])
        m, k = gl.arange(0, ROWS, gl.SliceLayout(1, along)), gl.arange(0, K, gl.SliceLayout(0, along))
        weight = gl.load(norm + k)[None, :]
        if PDL:
            gdc_wait()
        row = gl.load(x + m[:, None] * x_stride + k[None, :], (m < M)[:, None], 0.0).to(gl.float32)
        inverse = gl.rsqrt(gl.sum(row * row, axis=1) / K + eps)[:, None]
        row = (row * inverse).to(dtype) * weight
        row = row.reshape([ROWS, PARTS, BK]).permute([1, 0, 2])
        rows.index(0).store(staging.relabel(row) if NARROW else row)
    else:
        part, m, k = staging.offsets(dtype, ROWS, PARTS, BK)
        at, x_mask = x + m * x_stride + part * STRETCH + k, m < M
        if PDL:
            gdc_wait()
        if ROWS_RESIDENT:
            for step in gl.static_range(STEPS):
                row = gl.load(at + step * BK, x_mask, 0.0)
                rows.index(step).store(staging.relabel(row) if NARROW else row)

    flat: gl.constexpr = staging.flat_layout(OUTPUTS, PARTS)
    m = gl.arange(0, BM, gl.SliceLayout(0, flat))[None, :]
    n = gl.program_id(0) * OUTPUTS + gl.arange(0, OUTPUTS, gl.SliceLayout(1, flat))[:, None]
    out_mask = m < M
    residual_values = None
    if RESIDUAL:
        residual_values = gl.load(residual + m * residual_stride + n, out_mask, 0.0).to(gl.float32)

    sums = gl.zeros([PARTS, BN, BM], gl.float32, of_sums)
    if not UPCASTS_AHEAD:
        async_copy.wait_group(0)
    for step in gl.static_range(STEPS):
        if UPCASTS_AHEAD:
            weights = ahead[step]
        elif NARROW:
            weights = staging.upcast_operand(staged.index(step), of_sums)
        else:
            weights = staged.index(step).load(gl.DotOperandLayout(0, of_sums, 2))
        if not ROWS_RESIDENT:
            row = gl.load(at + step * BK, x_mask, 0.0)
            rows.index(0).store(staging.relabel(row) if NARROW else row)
        tile = rows.index(step if ROWS_RESIDENT else 0).permute([0, 2, 1]).load(gl.DotOperandLayout(1, of_sums, 2))
        if ROWS < BM:
            tile = tile.broadcast_to([PARTS, BK, BM])
        sums = mma_v2(weights, tile, sums, input_precision="ieee")
    acc = staging.sum_partials(sums, GATED)
    if scale is not None:
        acc = acc * gl.convert_layout(scales, acc.type.layout)
    acc = staging.compute_outputs(acc, residual_values, dtype, GATED, flat)
    gl.store(out + m * out_stride + n, acc, out_mask)


def small_m_gemm(
    x: Tensor,
    weight: Tensor,
    tiles: SmallTiles,
    *,
    scale: Tensor | None = None,
    norm: Norm | None = None,
    residual: Tensor | None = None,
    out: Tensor | None = None,
    gated: bool = False,
) -> Tensor:
    """Return residual + norm(x) @ weight.T, or silu(gate) * up if gated.

    The result is written to `out` or to a new tensor.

    Shapes: x [M, K]; weight [N, K], or [2 N, K] with the gate first; scale [N] or [2 N] float32, for int8 weights;
    residual, out, result [M, N], may be strided.
    """
    (M, K), N = x.shape, len(weight) // (1 + gated)
    assert x.stride(1) == 1
    assert weight.is_contiguous()
    assert tiles.rows >= M
    assert norm is None or tiles.BK * PARTS == K, "a row is normed whole"
    if out is None:
        out = torch.empty((M, N), device=x.device, dtype=x.dtype)
    assert out.shape == (M, N)
    assert out.stride(1) == 1
    _small_m_gemm_kernel[(len(weight) // tiles.BN,)](
        x,
        weight,
        scale,
        norm.weight if norm is not None else x,
        residual if residual is not None else x,
        out,
        M,
        norm.eps if norm is not None else 0.0,
        x.stride(0),
        residual.stride(0) if residual is not None else 0,
        out.stride(0),
        N=N,
        K=K,
        NORM=norm is not None,
        RESIDUAL=residual is not None,
        GATED=gated,
        ROWS=tiles.rows,
        BM=MAX_ROWS,
        BN=tiles.BN,
        PARTS=PARTS,
        BK=tiles.BK,
        ROWS_RESIDENT=tiles.rows_resident,
        PDL=pdl(),
        launch_pdl=pdl(),
        num_warps=PARTS,
        enable_fp_fusion=False,
    )
    return out
