"""Split-K matrix product kernel: each program sums one part of the inner dimension K.

A second launch adds the partial sums. In gemm.py, every program reads complete rows, even a program with few outputs.
Here, a program has more outputs and reads only a part of each row. K is divided and summed as in
runtime/device/kernels/gemm.py, so the choice of the kernel does not change results.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from runtime.device.kernels import launch_options

LINE_BITS = tl.constexpr(1024)  # Size of a cache line in bits.
WIDTH = 256  # Number of outputs that a program of the second kernel computes.


def split_k_gemm(
    x: Tensor,
    weight: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    residual: Tensor | None,
    out: Tensor,
    *,
    BM: int,
    BN: int,
    BK: int,
    parts: int,
    warps: int,
    stages: int,
    prefetch: bool,
) -> None:
    """Compute residual + x @ weight.T + bias into `out`.

    Shapes: x [M, K]; weight [N, K]; scale [N] float32, for int8 weights; bias [N]; residual, out [M, N], may be
    strided.
    """
    (M, K), N = x.shape, len(weight)
    assert N % BN == 0 == K % (parts * BK)
    sums = torch.empty(parts, M, N, device=x.device, dtype=torch.float32)
    _stretch[(N // BN, triton.cdiv(M, BM), parts)](
        x,
        weight,
        sums,
        M,
        x.stride(0),
        N=N,
        K=K,
        BM=BM,
        BN=BN,
        BK=BK,
        PARTS=parts,
        PREFETCH=prefetch,
        num_warps=warps,
        num_stages=stages,
        **launch_options(),
    )
    _add_up[(M, triton.cdiv(N, WIDTH))](
        sums,
        scale,
        bias,
        residual,
        out,
        M,
        residual.stride(0) if residual is not None else 0,
        out.stride(0),
        N=N,
        PARTS=parts,
        WIDTH=WIDTH,
        num_warps=1,
        **launch_options(),
    )


@triton.jit(do_not_specialize=["M"])
def _stretch(
    x,
    w,
    sums,
    M,
    x_stride,
    N: tl.constexpr,
    K: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    PARTS: tl.constexpr,
    PREFETCH: tl.constexpr,
    PDL: tl.constexpr,
):
    # Shapes: x [M, K]; w [N, K]; sums [PARTS, M, N].
    part = tl.program_id(2)
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    m_mask = m < M
    stretch: tl.constexpr = K // PARTS
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        if PREFETCH:
            LINE: tl.constexpr = LINE_BITS // w.dtype.element_ty.primitive_bitwidth
            lines = tl.arange(0, BK // LINE)
            for first in range(0, stretch, BK):
                at = w + n[:, None].to(tl.int64) * K + part * stretch + first + lines[None, :] * LINE
                tl.inline_asm_elementwise("prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [at], tl.int32, False, 1)
        tl.extra.cuda.gdc_wait()
    k = part * stretch + tl.arange(0, BK)
    w_at = w + n[:, None].to(tl.int64) * K + k[None, :]
    x_at = x + m[None, :] * x_stride + k[:, None]
    acc = tl.zeros((BN, BM), tl.float32)
    for start in range(0, stretch, BK):
        rows = tl.load(x_at + start, m_mask[None, :], 0.0)
        acc = tl.dot(tl.load(w_at + start).to(x.dtype.element_ty), rows, acc, input_precision="ieee")
    tl.store(sums + (part * M + m)[None, :] * N + n[:, None], acc, m_mask[None, :])


@triton.jit(do_not_specialize=["M"])
def _add_up(
    sums,
    scale,
    bias,
    residual,
    out,
    M,
    residual_stride,
    out_stride,
    N: tl.constexpr,
    PARTS: tl.constexpr,
    WIDTH: tl.constexpr,
    PDL: tl.constexpr,
):
    # Shapes: sums [PARTS, M, N]; scale, bias [N]; residual, out [M, N].
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    m, n = tl.program_id(0), tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = n < N
    if residual is not None:
        residual_values = tl.load(residual + m * residual_stride + n, inside, 0.0).to(tl.float32)
    at = sums + m * N + n
    acc = tl.load(at, inside, 0.0)
    for part in tl.static_range(1, PARTS):
        acc += tl.load(at + part * M * N, inside, 0.0)
    if scale is not None:
        acc *= tl.load(scale + n, inside, 0.0)
    if bias is not None:
        acc += tl.load(bias + n, inside, 0.0).to(tl.float32)
    dtype = out.dtype.element_ty
    if residual is not None:
        # The product is rounded before the residual is added, like the result of a separate operation.
        acc = acc.to(dtype).to(tl.float32) + residual_values
    tl.store(out + m * out_stride + n, acc.to(dtype), inside)
