"""Matrix product kernel for up to 128 input rows, which loads weights early.

The kernel starts to load weights before the previous kernel has computed the input rows. It works like
runtime/device/kernels/small_m_gemm.py, but supports more rows than one tensor core instruction has. Shared memory is
too small for all rows and weights. Therefore rows and the remaining weights are loaded a few steps before the products.
A preceding norm is a separate launch, as in gemm.py.

The inner dimension K is divided and summed as in runtime/device/kernels/gemm.py, so the results of both kernels are
bitwise equal.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

import torch
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from runtime.device.kernels import pdl, shared_memory, staging, wgmma
from runtime.device.kernels.gemm import PARTS

SIZES = 16, 32, 64  # Numbers of input rows per program. One kernel is compiled for each size.
ROWS = *SIZES, 128  # Maximum number of input rows for each entry of `Candidates`.
RESERVED_BYTES = 1024  # Bytes of shared memory that are used neither for weights nor for input rows.


class MediumTiles(NamedTuple):
    """Tile sizes of a matrix product.

    A program multiplies all input rows by `BN` weight rows (gate and up together). A step processes `BK` elements of
    every part of K. `weights_ahead` and `rows_ahead` are the numbers of steps whose weights and rows are in shared
    memory, and do not change results.
    """

    BN: int
    BK: int
    weights_ahead: int
    rows_ahead: int


Candidates = tuple[MediumTiles | None, ...]
# Keys: number of outputs, number of inputs, True if there is a gate. Values: tiles for each of ROWS, measured on an
# H200, or None if gemm.py is faster.
TILES: dict[tuple[int, int, bool], Candidates] = {
    (4096, 1024, False): (MediumTiles(16, 64, 4, 4), MediumTiles(32, 64, 4, 4), MediumTiles(32, 64, 4, 3)),
    (1024, 2048, False): (MediumTiles(16, 128, 4, 4), MediumTiles(16, 128, 4, 3), MediumTiles(16, 64, 8, 4)),
    (3072, 1024, True): (MediumTiles(32, 64, 4, 4), MediumTiles(64, 64, 4, 4), None),
    (1024, 3072, False): (MediumTiles(16, 128, 6, 6), MediumTiles(16, 128, 6, 4), MediumTiles(16, 64, 12, 4)),
    (2048, 1024, False): (MediumTiles(32, 64, 4, 3), MediumTiles(16, 64, 4, 3), MediumTiles(16, 64, 4, 3)),
    (4096, 2048, False): (MediumTiles(32, 64, 8, 6), MediumTiles(32, 64, 8, 4), MediumTiles(32, 64, 6, 4)),
    (2048, 2048, False): (MediumTiles(32, 64, 8, 6), MediumTiles(16, 128, 4, 3), MediumTiles(16, 64, 8, 4)),
    (6144, 2048, True): (MediumTiles(128, 64, 3, 3), MediumTiles(32, 64, 4, 3), None),
    (2048, 6144, False): (MediumTiles(16, 128, 8, 6), MediumTiles(16, 128, 6, 4), MediumTiles(16, 64, 12, 4)),
    (3072, 2048, False): (MediumTiles(32, 128, 4, 4), MediumTiles(32, 64, 8, 6), MediumTiles(32, 64, 6, 4)),
    (3072, 1024, False): (MediumTiles(32, 64, 4, 4), MediumTiles(16, 64, 4, 3), MediumTiles(32, 64, 4, 3)),
}
# Values in the format of TILES for int8 weights. The last entry is for 65 to 128 rows, for which
# several programs multiply the same weights.
EIGHT_BITS: dict[tuple[int, int, bool], Candidates] = {
    (4096, 1024, False): (MediumTiles(32, 64, 4, 4), MediumTiles(32, 128, 2, 2), MediumTiles(32, 128, 2, 2), None),
    (1024, 2048, False): (MediumTiles(16, 128, 4, 3), MediumTiles(16, 128, 4, 4), MediumTiles(16, 128, 4, 3), None),
    (3072, 1024, True): (MediumTiles(32, 128, 2, 2), MediumTiles(32, 128, 2, 2), MediumTiles(64, 128, 2, 2), None),
    (1024, 3072, False): (MediumTiles(16, 128, 6, 3), MediumTiles(16, 128, 6, 3), MediumTiles(16, 128, 4, 3), None),
    (2048, 1024, False): (MediumTiles(16, 64, 4, 3), MediumTiles(32, 128, 2, 2), MediumTiles(16, 64, 4, 4), None),
    (4096, 2048, False): (
        MediumTiles(32, 128, 4, 4),
        MediumTiles(32, 128, 4, 3),
        MediumTiles(32, 64, 8, 4),
        MediumTiles(64, 64, 6, 4),
    ),
    (2048, 2048, False): (
        MediumTiles(16, 128, 4, 3),
        MediumTiles(16, 128, 4, 4),
        MediumTiles(16, 128, 4, 3),
        MediumTiles(32, 64, 8, 4),
    ),
    (6144, 2048, True): (
        MediumTiles(64, 128, 2, 2),
        MediumTiles(64, 64, 4, 3),
        MediumTiles(32, 64, 8, 4),
        MediumTiles(64, 64, 6, 4),
    ),
    (2048, 6144, False): (MediumTiles(16, 128, 8, 4), MediumTiles(16, 128, 8, 4), MediumTiles(16, 128, 4, 3), None),
    (3072, 2048, False): (
        MediumTiles(32, 128, 4, 4),
        MediumTiles(32, 128, 4, 3),
        MediumTiles(32, 64, 8, 4),
        MediumTiles(32, 64, 8, 4),
    ),
    (3072, 1024, False): (MediumTiles(32, 64, 4, 4), MediumTiles(32, 128, 2, 2), MediumTiles(32, 128, 2, 2), None),
}


def choose_tiles(x: Tensor, weight: Tensor, *, gated: bool = False) -> MediumTiles | None:
    """Return the tiles for a product on this GPU, or None if another kernel is faster.

    Shapes: x [M, K]; weight [N, K], or [2 N, K] if gated.
    """
    M, K = x.shape
    is_int8 = weight.itemsize < x.itemsize
    candidates = (EIGHT_BITS if is_int8 else TILES).get((len(weight) // (1 + gated), K, gated))
    # Float32 inputs are multiplied by gemm.py. So are int8 weights on GPUs other than Hopper, because there the last
    # bits of the results differ between the two kernels (see `choose_tiles` in gemm.py).
    is_supported = pdl() and x.itemsize == 2 and (wgmma() or not is_int8)
    index = bisect_left(ROWS, M)
    if candidates is None or index >= len(candidates) or not is_supported:
        return None
    tiles = candidates[index]
    return tiles if tiles is not None and shared_bytes(tiles, M, weight.itemsize) <= shared_memory() else None


def block_rows(M: int) -> int:
    """Return the number of rows per program.

    It is the next size for which a kernel is compiled, or the largest size.
    """
    return next((size for size in SIZES if size >= M), SIZES[-1])


def shared_bytes(tiles: MediumTiles, M: int, weight_itemsize: int = 2) -> int:
    """Return the shared memory in bytes that a program needs at most, for M rows of bfloat16."""
    step_bytes = weight_itemsize * tiles.weights_ahead * tiles.BN + 2 * tiles.rows_ahead * block_rows(M)
    return PARTS * tiles.BK * step_bytes + RESERVED_BYTES


@gluon.jit(do_not_specialize=["M"])
def _medium_m_gemm_kernel(
    x,
    w,
    scale,
    residual,
    out,
    M,
    x_stride,
    residual_stride,
    out_stride,
    N: gl.constexpr,
    K: gl.constexpr,
    RESIDUAL: gl.constexpr,
    GATED: gl.constexpr,
    BM: gl.constexpr,
    BN: gl.constexpr,
    PARTS: gl.constexpr,
    BK: gl.constexpr,
    WEIGHTS_AHEAD: gl.constexpr,
    ROWS_AHEAD: gl.constexpr,
    PDL: gl.constexpr,
):
    # Shapes: x [M, K]; w [N, K], or [2 N, K] with the gate first; scale [N] or [2 N], or None if w has the dtype of x;
    # residual, out [M, N]. Each warp sums one part of K.
    STRETCH: gl.constexpr = K // PARTS
    STEPS: gl.constexpr = STRETCH // BK
    OUTPUTS: gl.constexpr = BN // (1 + GATED)
    gl.static_assert(STRETCH % BK == 0)
    gl.static_assert(WEIGHTS_AHEAD >= ROWS_AHEAD)
    gl.static_assert(STEPS >= WEIGHTS_AHEAD)
    dtype: gl.constexpr = x.dtype.element_ty
    w_at = staging.weights_at(w, N, K, GATED, BN, PARTS, BK)
    weights = staging.allocate(w.dtype.element_ty, WEIGHTS_AHEAD, BN, PARTS, BK)
    for step in gl.static_range(WEIGHTS_AHEAD):
        async_copy.async_copy_global_to_shared(weights.index(step), w_at + step * BK)
    if scale is not None:
        scales = staging.scales_of(scale, N, GATED, OUTPUTS, PARTS)
    if PDL:
        gdc_launch_dependents()
    first_row = gl.program_id(1) * BM
    part, m, k = staging.offsets(dtype, BM, PARTS, BK)
    m += first_row
    x_at, x_mask = x + m * x_stride + part * STRETCH + k, m < M
    rows = staging.allocate(dtype, ROWS_AHEAD, BM, PARTS, BK)
    if PDL:
        gdc_wait()
    # The first commit group contains all weights that were requested so far. Each later group contains the input rows
    # of one step.
    for step in gl.static_range(ROWS_AHEAD - 1):
        async_copy.async_copy_global_to_shared(rows.index(step), x_at + step * BK, x_mask)
        async_copy.commit_group()

    flat: gl.constexpr = staging.flat_layout(OUTPUTS, PARTS)
    m = first_row + gl.arange(0, BM, gl.SliceLayout(0, flat))[None, :]
    n = gl.program_id(0) * OUTPUTS + gl.arange(0, OUTPUTS, gl.SliceLayout(1, flat))[:, None]
    out_mask = m < M
    residual_values = None
    if RESIDUAL:
        residual_values = gl.load(residual + m * residual_stride + n, out_mask, 0.0).to(gl.float32)

    of_sums: gl.constexpr = staging.sums_layout(PARTS)
    sums = gl.zeros([PARTS, BN, BM], gl.float32, of_sums)
    for step in gl.static_range(STEPS):
        async_copy.wait_group(ROWS_AHEAD - 2)
        # New input rows overwrite those of the previous step, which all warps have read.
        if step + ROWS_AHEAD - 1 < STEPS:
            buffer = rows.index((step + ROWS_AHEAD - 1) % ROWS_AHEAD)
            async_copy.async_copy_global_to_shared(buffer, x_at + (step + ROWS_AHEAD - 1) * BK, x_mask)
        if step > 0 and step + WEIGHTS_AHEAD - 1 < STEPS:
            buffer = weights.index((step - 1) % WEIGHTS_AHEAD)
            async_copy.async_copy_global_to_shared(buffer, w_at + (step + WEIGHTS_AHEAD - 1) * BK)
        async_copy.commit_group()
        new_rows, new_weights = rows.index(step % ROWS_AHEAD), weights.index(step % WEIGHTS_AHEAD)
        if scale is None:
            tile = new_rows.permute([0, 2, 1]).load(gl.DotOperandLayout(1, of_sums, 2))
            tile_of_weights = new_weights.load(gl.DotOperandLayout(0, of_sums, 2))
        else:
            tile = staging.relabeled_operand(new_rows, of_sums)
            tile_of_weights = staging.upcast_operand(new_weights, of_sums)
        sums = mma_v2(tile_of_weights, tile, sums, input_precision="ieee")
    acc = staging.sum_partials(sums, GATED)
    if scale is not None:
        acc = acc * gl.convert_layout(scales, acc.type.layout)
    acc = staging.compute_outputs(acc, residual_values, dtype, GATED, flat)
    gl.store(out + m * out_stride + n, acc, out_mask)


def medium_m_gemm(
    x: Tensor,
    weight: Tensor,
    tiles: MediumTiles,
    *,
    scale: Tensor | None = None,
    residual: Tensor | None = None,
    out: Tensor | None = None,
    gated: bool = False,
) -> Tensor:
    """Return residual + x @ weight.T, or silu(gate) * up if gated.

    The result is written to `out` or to a new tensor.

    Shapes: x [M, K]; weight [N, K], or [2 N, K] with the gate first; scale [N] or [2 N] float32, for int8 weights;
    residual, out, result [M, N], may be strided. All other tensors have the same 16-bit dtype.
    """
    (M, K), N = x.shape, len(weight) // (1 + gated)
    assert x.stride(1) == 1
    assert weight.is_contiguous()
    if out is None:
        out = torch.empty((M, N), device=x.device, dtype=x.dtype)
    assert out.shape == (M, N)
    assert out.stride(1) == 1
    BM = block_rows(M)
    _medium_m_gemm_kernel[(len(weight) // tiles.BN, -(-M // BM))](
        x,
        weight,
        scale,
        residual if residual is not None else x,
        out,
        M,
        x.stride(0),
        residual.stride(0) if residual is not None else 0,
        out.stride(0),
        N=N,
        K=K,
        RESIDUAL=residual is not None,
        GATED=gated,
        BM=BM,
        BN=tiles.BN,
        PARTS=PARTS,
        BK=tiles.BK,
        WEIGHTS_AHEAD=tiles.weights_ahead,
        ROWS_AHEAD=tiles.rows_ahead,
        PDL=pdl(),
        launch_pdl=pdl(),
        num_warps=PARTS,
        enable_fp_fusion=False,
    )
    return out
