"""Attention kernels for prefill chunks, which may have positions of several slots.

The first launch computes norms, RoPE and the cache write, and the second launch computes flash attention. A new
position attends to itself and to all earlier positions of its slot. The reference implementation is the decoder layer
in runtime/model/layers.py, called with a device's attention function (`SlotAttentionFunction`).
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from runtime.device.fused import KVView, QKNormRope
from runtime.device.kernels import launch_options
from runtime.device.kernels.qk_norm_rope import (
    FLOAT32_STAGES,
    LOG2_E,
    LOWEST,
    STAGES,
    partners,
    qk_norm_rope,
    query_heads,
)

TILE = 32  # Number of positions per program.
BLOCK = 64  # Number of keys per step.
FLOAT32_BLOCK = 16


def prefill_attention(
    qkv: Tensor, heads: QKNormRope, cache: KVView, slot: Tensor, start: Tensor, out: Tensor | None = None
) -> Tensor:
    """Store keys and values of P new positions in each of n slots, and return the attention.

    The last position of a slot is scratch: padding of a chunk is written to the last position, to which no query
    attends.

    Shapes: qkv [n * P, (heads + 2 kv_heads) * d], positions of a slot adjacent; slot [n] int64, slot numbers; start [n]
    int64, first new positions; out, result [n * P, heads * d].

    Args:
        out: Tensor for the result, or None to allocate one.
    """
    _, kv_heads, T, d = cache.keys.shape
    count, P = query_heads(qkv, heads, cache, 1, slot, start), len(qkv) // len(slot)
    out = qkv.new_empty(len(qkv), count * d) if out is None else out
    assert out.shape == (len(qkv), count * d)
    assert out.is_contiguous()
    angles, eps = (heads.cos, heads.sin), heads.q_norm.eps
    grid = (len(slot) * triton.cdiv(P, TILE), kv_heads)
    queries = max(16, triton.next_power_of_2(TILE * count // kv_heads))
    half = qkv.itemsize == 2
    shape = {"HEADS": count, "KV_HEADS": kv_heads, "D": d, "WIDTH": triton.next_power_of_2(d), "TILE": TILE}
    arguments = (qkv, heads.k_norm.weight, *angles, *cache, slot, start, eps, P, T)
    _place[grid](*arguments, **shape, num_warps=4, **launch_options())
    _prefill_attention[grid](
        qkv,
        heads.q_norm.weight,
        *angles,
        *cache,
        slot,
        start,
        out,
        eps,
        d**-0.5,
        P,
        T,
        **shape,
        QUERIES=queries,
        BLOCK=BLOCK if half else FLOAT32_BLOCK,
        STAGES=STAGES if half else FLOAT32_STAGES,
        num_warps=queries // 16 if half else 8,
        **launch_options(),
    )
    return out


@triton.jit
def _place(
    qkv,
    k_norm,
    cos,
    sin,
    keys,
    values,
    slot,
    start,
    eps,
    P,
    T,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    PDL: tl.constexpr,
):
    """Store the keys and values of a tile of new positions for one key head."""
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    tiles, kv_head = tl.cdiv(P, TILE), tl.program_id(1)
    part, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    new = tile * TILE + tl.arange(0, TILE)
    live = new < P
    at = tl.minimum(tl.load(start + part) + new, T - 1)
    dims = tl.arange(0, WIDTH)
    partner = partners(dims, D)
    inside = (dims < D)[None, :]
    load_mask = live[:, None] & inside
    source = qkv + ((part * P + new) * ((HEADS + 2 * KV_HEADS) * D) + (HEADS + kv_head) * D)[:, None]
    k = tl.load(source + dims[None, :], mask=load_mask, other=0.0)
    k_partner = tl.load(source + partner[None, :], mask=load_mask, other=0.0)
    v = tl.load(source + KV_HEADS * D + dims[None, :], mask=load_mask, other=0.0)
    weight = tl.load(k_norm + dims[None, :], mask=inside, other=0.0)
    partner_weight = tl.load(k_norm + partner[None, :], mask=inside, other=0.0)
    angle = at[:, None] * D + dims[None, :]
    across = tl.load(cos + angle, mask=load_mask, other=0.0)
    up = tl.load(sin + angle, mask=load_mask, other=0.0)
    k = qk_norm_rope(k, k_partner, weight, partner_weight, across, up, eps, D, WIDTH)
    address = (tl.load(slot + part) * KV_HEADS + kv_head) * T * D + angle
    tl.store(keys + address, k.to(keys.dtype.element_ty), mask=load_mask)
    tl.store(values + address, v.to(values.dtype.element_ty), mask=load_mask)


@triton.jit
def _prefill_attention(
    qkv,
    q_norm,
    cos,
    sin,
    keys,
    values,
    slot,
    start,
    out,
    eps,
    scale,
    P,
    T,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    QUERIES: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    PDL: tl.constexpr,
):
    """Compute flash attention of a tile of new positions for all query heads of a key head."""
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    tiles, kv_head = tl.cdiv(P, TILE), tl.program_id(1)
    part, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    GROUP: tl.constexpr = HEADS // KV_HEADS
    begin_at = tl.load(start + part).to(tl.int32)
    query = tl.arange(0, QUERIES)
    new = tile * TILE + query // GROUP
    live = (query < TILE * GROUP) & (new < P)
    head = kv_head * GROUP + query % GROUP
    at = tl.minimum(begin_at + new, T - 1)
    last = tl.minimum(at, T - 2)
    dims = tl.arange(0, WIDTH)
    partner = partners(dims, D)
    inside = (dims < D)[None, :]
    q_there = live[:, None] & inside
    source = qkv + ((part * P + new) * ((HEADS + 2 * KV_HEADS) * D) + head * D)[:, None]
    q = tl.load(source + dims[None, :], mask=q_there, other=0.0)
    q_partner = tl.load(source + partner[None, :], mask=q_there, other=0.0)
    weight = tl.load(q_norm + dims[None, :], mask=inside, other=0.0)
    partner_weight = tl.load(q_norm + partner[None, :], mask=inside, other=0.0)
    angle = at[:, None] * D + dims[None, :]
    across = tl.load(cos + angle, mask=q_there, other=0.0)
    up = tl.load(sin + angle, mask=q_there, other=0.0)
    q = qk_norm_rope(q, q_partner, weight, partner_weight, across, up, eps, D, WIDTH)

    base = (tl.load(slot + part) * KV_HEADS + kv_head) * T * D
    stop = tl.minimum(begin_at + tl.minimum((tile + 1) * TILE, P), T - 1)
    factor = scale * LOG2_E
    best = tl.full((QUERIES,), LOWEST, tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    acc = tl.zeros((QUERIES, WIDTH), tl.float32)
    offsets = tl.arange(0, BLOCK)
    for begin in tl.range(0, stop, BLOCK, num_stages=STAGES):
        index = begin + offsets
        load_mask = (index < stop)[:, None] & inside
        block = base + index[:, None] * D + dims[None, :]
        k = tl.load(keys + block, mask=load_mask, other=0.0).to(q.dtype)
        v = tl.load(values + block, mask=load_mask, other=0.0).to(q.dtype)
        score = tl.dot(q, k.T, input_precision="ieee") * factor
        score = tl.where(index[None, :] <= last[:, None], score, LOWEST)
        peak = tl.maximum(best, tl.max(score, axis=1))
        fade = tl.exp2(best - peak)
        share = tl.exp2(score - peak[:, None])
        total = total * fade + tl.sum(share, axis=1)
        acc = tl.dot(share.to(v.dtype), v, acc * fade[:, None], input_precision="ieee")
        best = peak
    target = out + ((part * P + new) * HEADS + head)[:, None] * D + dims[None, :]
    tl.store(target, (acc / total[:, None]).to(q.dtype), mask=q_there)
