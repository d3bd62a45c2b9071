"""Shared code of the attention kernels: norm, RoPE, shape checks and block sizes."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from runtime.device.fused import FP8, KVView, QKNormRope

STAGES = 3  # Number of key blocks in the software pipeline, including the current block.
FLOAT32_STAGES = 2  # Number of key blocks in the pipeline for float32, which is limited by the size of shared memory.

LOG2_E = tl.constexpr(1.4426950408889634)
LOWEST = tl.constexpr(-1e30)  # A score lower than every real score. A finite value avoids NaN in differences.


def query_heads(qkv: Tensor, heads: QKNormRope, cache: KVView, new: int, *indices: Tensor) -> int:
    """Check the shapes of an attention call, and return the number of query heads.

    The kernels do not check bounds. With wrong shapes, a kernel would read the memory of another slot.
    """
    (q_norm, q_eps), (k_norm, k_eps), cos, sin = heads
    _, kv_heads, T, d = cache.keys.shape
    count = qkv.shape[1] // d - 2 * kv_heads
    assert count > 0 == count % kv_heads == d % 2
    assert new in (1, 2)
    assert qkv.shape[1] == (count + 2 * kv_heads) * d
    assert cache.keys.shape == cache.values.shape
    assert q_norm.shape == k_norm.shape == (d,)
    assert q_eps == k_eps
    assert cos.shape == sin.shape == (T, d)
    numbers = (qkv, q_norm, k_norm, cos, sin)
    assert all(tensor.is_contiguous() for tensor in (*numbers, *cache, *indices))
    assert len({tensor.dtype for tensor in numbers}) == 1
    assert cache.keys.dtype == cache.values.dtype in (qkv.dtype, FP8)
    return count


@triton.jit
def partners(dims, D: tl.constexpr):
    """Return the index of each head dimension's partner in its RoPE pair."""
    HALF: tl.constexpr = D // 2
    return tl.where(dims < HALF, dims + HALF, dims - HALF)


@triton.jit
def qk_norm_rope(x, partner, weight, partner_weight, cos, sin, eps, D: tl.constexpr, WIDTH: tl.constexpr):
    """Apply RMSNorm and split-half RoPE to R heads, with the same rounding as torch.

    The norm is computed in float32, cast, and then multiplied by the weight. The caller loads all arguments, because a
    kernel should issue all loads before the first computation.

    Args:
        x: Heads [R, WIDTH], zero beyond D.
        partner: Elements of x in the order of `partners` [R, WIDTH].
        weight, partner_weight: Weights of the norm [1, WIDTH].
        cos, sin: RoPE tables at the heads' positions [R, WIDTH].
    """
    first_half = (tl.arange(0, WIDTH) < D // 2)[None, :]
    wide = x.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, axis=1) / D + eps)[:, None]
    x = weight * (wide * scale).to(x.dtype)
    partner = partner_weight * (partner.to(tl.float32) * scale).to(x.dtype)
    return x * cos + tl.where(first_half, -partner, partner) * sin
