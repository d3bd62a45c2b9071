"""What attention kernels do to a head before it attends: RMSNorm, then rotary position, rounded as torch rounds."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def partners(dims, D: tl.constexpr):
    """The number that each is turned with: split-half pairs."""
    HALF: tl.constexpr = D // 2
    return tl.where(dims < HALF, dims + HALF, dims - HALF)


@triton.jit
def norm_and_rotate(x, partner, weight, partner_weight, cos, sin, eps, D: tl.constexpr, WIDTH: tl.constexpr):
    """RMSNorm (float32 inside, cast, then weight) and split-half RoPE of R heads.

    All is handed in loaded, so that a kernel can have all its loads on their way before the first is needed.

    Args:
        x, partner: [R, WIDTH] the heads, zeros beyond D, and each number's partner.
        weight, partner_weight: [1, WIDTH] of the norm.
        cos, sin: [R, WIDTH] of the heads' positions.
    """
    first_half = (tl.arange(0, WIDTH) < D // 2)[None, :]
    wide = x.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, axis=1) / D + eps)[:, None]
    x = weight * (wide * scale).to(x.dtype)
    partner = partner_weight * (partner.to(tl.float32) * scale).to(x.dtype)
    return x * cos + tl.where(first_half, -partner, partner) * sin
