"""Attention kernel of a decode step, with one or two new positions per row.

One launch computes norms, RoPE, the cache write and the attention. Each row attends to the positions of its slot. The
reference implementation is runtime/model/layers.py with the attention of a device.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from runtime.device.fused import KVView, QKNormRope
from runtime.device.kernels import count_stages, launch_options
from runtime.device.kernels.qk_norm_rope import (
    FLOAT32_STAGES,
    LOG2_E,
    LOWEST,
    STAGES,
    partners,
    qk_norm_rope,
    query_heads,
)

PART = 16  # Number of keys that a warp processes per step.
# Number of warps that divide the keys of a row among them. With more warps, fewer programs would run at the same time.
PARTS = 4
MIN_WARPS = 2  # Minimum number of warps per program, for rows with only a few keys.


def decode_attention(
    qkv: Tensor,
    heads: QKNormRope,
    cache: KVView,
    rows: Tensor,
    positions: Tensor,
    new: int = 1,
    *,
    inputs_ready: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Store keys and values of each row's new positions, and return their attention output.

    Shapes: qkv [B * new, (heads + 2 kv_heads) * d], where the positions of a row are adjacent; rows [B] int64, slot
    numbers; positions [B] int64, first new positions; out, result [B * new, heads * d]. All floating-point tensors have
    the same dtype, float32 or bfloat16. The cache may also be float8_e4m3fn, to which new keys and values are rounded.

    Args:
        new: Number of new positions per row, 1 or 2.
        inputs_ready: True if all kernels that write `rows` and `positions` have finished. The kernel then reads `rows`
            and `positions` while the previous kernel still runs.
        out: Tensor for the result, or None to allocate one.
    """
    _, kv_heads, T, d = cache.keys.shape
    count = query_heads(qkv, heads, cache, new, rows, positions)
    out = qkv.new_empty(len(qkv), count * d) if out is None else out
    assert out.shape == (len(qkv), count * d)
    assert out.is_contiguous()
    parts, width = min(PARTS, triton.next_power_of_2(triton.cdiv(T, PART))), triton.next_power_of_2(d)
    block = 2 * parts * PART * width * cache.keys.itemsize  # Bytes of keys and values that a program reads per step.
    _decode_attention[(len(rows), kv_heads)](
        qkv,
        heads.q_norm.weight,
        heads.k_norm.weight,
        heads.cos,
        heads.sin,
        *cache,
        rows,
        positions,
        out,
        heads.q_norm.eps,
        d**-0.5,
        T,
        HEADS=count,
        KV_HEADS=kv_heads,
        D=d,
        WIDTH=width,
        QUERIES=triton.next_power_of_2(new * count // kv_heads),
        NEW=new,
        PARTS=parts,
        PART=PART,
        STAGES=count_stages(STAGES if qkv.itemsize == 2 else FLOAT32_STAGES, block),
        ONCE=parts * PART >= T,
        INPUTS_READY=inputs_ready,
        num_warps=max(parts, MIN_WARPS),
        **launch_options(),
    )
    return out


@triton.jit
def _decode_attention(
    qkv,
    q_norm,
    k_norm,
    cos,
    sin,
    keys,
    values,
    rows,
    positions,
    out,
    eps,
    scale,
    T,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    NEW: tl.constexpr,
    PARTS: tl.constexpr,
    PART: tl.constexpr,
    STAGES: tl.constexpr,
    ONCE: tl.constexpr,
    INPUTS_READY: tl.constexpr,
    PDL: tl.constexpr,
):
    """Compute the attention of one row for one key head and its query heads.

    Keys are read in blocks of ``PARTS`` times ``PART``. Each warp has a separate online softmax for one part, and the
    parts are joined at the end. Therefore warps exchange no data in the loop.
    """
    if PDL:
        if not INPUTS_READY:
            # The wait precedes the start of the next kernel, which may therefore assume that the previous kernel has
            # ended (see ``Fused``).
            tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
    row, kv_head = tl.program_id(0), tl.program_id(1)
    GROUP: tl.constexpr = HEADS // KV_HEADS
    FAN: tl.constexpr = (HEADS + 2 * KV_HEADS) * D
    slot = tl.load(rows + row)
    # Clamp the index to the slot, because the position of an unused row is arbitrary.
    first = tl.maximum(tl.minimum(tl.load(positions + row), T - NEW), 0).to(tl.int32)
    query, news, dims = tl.arange(0, QUERIES), tl.arange(0, NEW), tl.arange(0, WIDTH)
    new_of, head, live = query // GROUP, kv_head * GROUP + query % GROUP, query < NEW * GROUP
    partner = partners(dims, D)
    inside = (dims < D)[None, :]
    q_there = live[:, None] & inside

    # All loads are issued before the first sum, so that they overlap.
    q_weight = tl.load(q_norm + dims[None, :], mask=inside, other=0.0)
    q_partner_weight = tl.load(q_norm + partner[None, :], mask=inside, other=0.0)
    k_weight = tl.load(k_norm + dims[None, :], mask=inside, other=0.0)
    k_partner_weight = tl.load(k_norm + partner[None, :], mask=inside, other=0.0)
    q_angle = (first + new_of)[:, None] * D + dims[None, :]
    q_cos = tl.load(cos + q_angle, mask=q_there, other=0.0)
    q_sin = tl.load(sin + q_angle, mask=q_there, other=0.0)
    k_angle = (first + news)[:, None] * D + dims[None, :]
    k_cos = tl.load(cos + k_angle, mask=inside, other=0.0)
    k_sin = tl.load(sin + k_angle, mask=inside, other=0.0)
    if PDL and INPUTS_READY:
        tl.extra.cuda.gdc_wait()
    source = qkv + ((row * NEW + new_of) * FAN + head * D)[:, None]
    q = tl.load(source + dims[None, :], mask=q_there, other=0.0)
    q_partner = tl.load(source + partner[None, :], mask=q_there, other=0.0)
    source = qkv + ((row * NEW + news) * FAN + (HEADS + kv_head) * D)[:, None]
    new_k = tl.load(source + dims[None, :], mask=inside, other=0.0)
    k_partner = tl.load(source + partner[None, :], mask=inside, other=0.0)
    new_v = tl.load(source + KV_HEADS * D + dims[None, :], mask=inside, other=0.0)
    base = (slot * KV_HEADS + kv_head) * T * D
    offsets = tl.arange(0, PARTS)[:, None] * PART + tl.arange(0, PART)[None, :]
    if ONCE:
        block = base + offsets[:, :, None] * D + dims[None, None, :]
        load_mask = (offsets < first)[:, :, None] & inside[None, :, :]
        k = tl.load(keys + block, mask=load_mask)
        v = tl.load(values + block, mask=load_mask)
        # Keys and values are masked with `tl.where`. With `other=0.0` in `tl.load`, the compiler would wait for the
        # keys before it loads the values.
        k, v = tl.where(load_mask, k.to(q.dtype), 0.0), tl.where(load_mask, v.to(q.dtype), 0.0)

    q = qk_norm_rope(q, q_partner, q_weight, q_partner_weight, q_cos, q_sin, eps, D, WIDTH)
    new_k = qk_norm_rope(new_k, k_partner, k_weight, k_partner_weight, k_cos, k_sin, eps, D, WIDTH)
    cached_k, cached_v = new_k.to(keys.dtype.element_ty), new_v.to(values.dtype.element_ty)
    tl.store(keys + base + k_angle, cached_k, mask=inside)
    tl.store(values + base + k_angle, cached_v, mask=inside)
    # The new position gets the values that later positions will read.
    new_k, new_v = cached_k.to(q.dtype), cached_v.to(q.dtype)

    # The online softmax starts with the new keys, because they are already in registers.
    factor = scale * LOG2_E
    score = tl.sum(q.to(tl.float32)[:, None, :] * new_k.to(tl.float32)[None, :, :], axis=2) * factor
    seen = news[None, :] <= new_of[:, None]
    peak = tl.max(tl.where(seen, score, LOWEST), axis=1)
    share = tl.where(seen, tl.exp2(score - peak[:, None]), 0.0)
    rounded = share.to(new_v.dtype).to(tl.float32)
    mixed = tl.sum(rounded[:, :, None] * new_v.to(tl.float32)[None, :, :], axis=1)
    is_first = (tl.arange(0, PARTS) == 0)[:, None]
    best = tl.where(is_first, peak[None, :], LOWEST)
    total = tl.where(is_first, tl.sum(share, axis=1)[None, :], 0.0)
    acc = tl.where(is_first[:, :, None], mixed[None, :, :], 0.0)
    parted_q = tl.broadcast_to(q[None, :, :], (PARTS, QUERIES, WIDTH))
    if ONCE:
        best, total, acc = _update_softmax(parted_q, k, v, offsets < first, factor, best, total, acc)
    else:
        for begin in tl.range(0, first, PARTS * PART, num_stages=STAGES):
            index = begin + offsets
            old = index < first
            load_mask = old[:, :, None] & inside[None, :, :]
            block = base + index[:, :, None] * D + dims[None, None, :]
            k = tl.load(keys + block, mask=load_mask, other=0.0).to(q.dtype)
            v = tl.load(values + block, mask=load_mask, other=0.0).to(q.dtype)
            best, total, acc = _update_softmax(parted_q, k, v, old, factor, best, total, acc)

    fade = tl.exp2(best - tl.max(best, axis=0)[None, :])
    result = tl.sum(acc * fade[:, :, None], axis=0) / tl.sum(total * fade, axis=0)[:, None]
    target = out + ((row * NEW + new_of) * HEADS + head)[:, None] * D + dims[None, :]
    tl.store(target, result.to(q.dtype), mask=q_there)


@triton.jit
def _update_softmax(q, k, v, live, factor, best, total, acc):
    """Update the online softmax of each part with the keys of one block.

    Shapes: q [PARTS, QUERIES, WIDTH]; k, v [PARTS, PART, WIDTH]; live [PARTS, PART]; best, total [PARTS, QUERIES]; acc
    as q.
    """
    score = tl.dot(q, tl.permute(k, (0, 2, 1)), input_precision="ieee") * factor
    score = tl.where(live[:, None, :], score, LOWEST)
    peak = tl.maximum(best, tl.max(score, axis=2))
    fade = tl.exp2(best - peak)
    share = tl.where(live[:, None, :], tl.exp2(score - peak[:, :, None]), 0.0)
    total = total * fade + tl.sum(share, axis=2)
    acc = tl.dot(share.to(v.dtype), v, acc * fade[:, :, None], input_precision="ieee")
    return peak, total, acc
