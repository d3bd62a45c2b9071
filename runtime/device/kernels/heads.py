"""What attention kernels do to a head before it attends: RMSNorm, then rotary position, rounded as torch rounds."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def norm_and_rotate(heads, weight, cos, sin, live, eps, D: tl.constexpr, WIDTH: tl.constexpr):
    """RMSNorm (float32 inside, cast, then weight) and split-half RoPE of R heads.

    Args:
        heads, cos, sin: [R] pointers to the head's first number, and to its position's row of the tables.
        weight: pointer to the norm's weight [D].
        live: [R] bool; other rows become zeros.
        D, WIDTH: numbers in a head, and the power of two that holds them.

    Returns:
        [R, WIDTH] in the dtype of the heads, zeros beyond D.
    """
    HALF: tl.constexpr = D // 2
    dims = tl.arange(0, WIDTH)
    partner = tl.where(dims < HALF, dims + HALF, dims - HALF)
    inside = dims < D
    there = live[:, None] & inside[None, :]
    x = tl.load(heads[:, None] + dims[None, :], mask=there, other=0.0)
    other = tl.load(heads[:, None] + partner[None, :], mask=there, other=0.0)
    wide = x.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, axis=1) / D + eps)[:, None]
    own_weight = tl.load(weight + dims, mask=inside, other=0.0)[None, :]
    other_weight = tl.load(weight + partner, mask=inside, other=0.0)[None, :]
    x = own_weight * (wide * scale).to(x.dtype)
    other = other_weight * (other.to(tl.float32) * scale).to(x.dtype)
    other = tl.where(dims[None, :] < HALF, -other, other)
    across = tl.load(cos[:, None] + dims[None, :], mask=there, other=0.0)
    up = tl.load(sin[:, None] + dims[None, :], mask=there, other=0.0)
    return x * across + other * up
