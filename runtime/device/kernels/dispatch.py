"""Fused operations that call the kernels of this package.

This module implements the interface `runtime.device.fused.Fused`.
"""

from __future__ import annotations

from torch import Tensor

from runtime.device.fused import Norm
from runtime.device.kernels import gemm as large
from runtime.device.kernels import medium_m_gemm as medium
from runtime.device.kernels import small_m_gemm as small
from runtime.device.kernels.decode_attention import decode_attention
from runtime.device.kernels.frame_io import begin_frame, finish_frame
from runtime.device.kernels.gemm import MAX_ROWS as max_rows
from runtime.device.kernels.gemm import norm
from runtime.device.kernels.prefill_attention import prefill_attention
from runtime.device.kernels.sample import sample

__all__ = [
    "begin_frame",
    "decode_attention",
    "finish_frame",
    "gemm",
    "max_rows",
    "norm",
    "prefill_attention",
    "sample",
    "swiglu",
]


def gemm(
    x: Tensor,
    weight: Tensor,
    *,
    scale: Tensor | None = None,
    norm: Norm | None = None,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Compute ``Fused.gemm`` with the kernel that is fastest for these shapes."""
    if bias is None and (tiles := small.choose_tiles(x, weight)) is not None:
        return small.small_m_gemm(x, weight, tiles, scale=scale, norm=norm, residual=residual, out=out)
    x = x if norm is None else large.norm(x, norm)
    if bias is None and (medium_tiles := medium.choose_tiles(x, weight)) is not None:
        return medium.medium_m_gemm(x, weight, medium_tiles, scale=scale, residual=residual, out=out)
    return large.gemm(x, weight, scale=scale, bias=bias, residual=residual, out=out)


def swiglu(x: Tensor, norm: Norm, weight: Tensor, *, scale: Tensor | None = None) -> Tensor:
    """Compute ``Fused.swiglu`` with the kernel that is fastest for these shapes."""
    if (tiles := small.choose_tiles(x, weight, gated=True)) is not None:
        return small.small_m_gemm(x, weight, tiles, scale=scale, norm=norm, gated=True)
    x = large.norm(x, norm)
    if (medium_tiles := medium.choose_tiles(x, weight, gated=True)) is not None:
        return medium.medium_m_gemm(x, weight, medium_tiles, scale=scale, gated=True)
    return large.swiglu(x, weight, scale=scale)
