"""Attention over slots: norms, rotary positions, the cache's new entries and the attention itself, fused.

``attend_rows`` is for frames: one new position, or two, of each of many rows. ``attend_piece`` is for prompts: many
new positions of one slot. Their twin is runtime/model/layers.py over a device's own attention.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from runtime.device.kernels import launch_options
from runtime.device.kernels.heads import norm_and_rotate

PART = 16  # keys that a warp takes at a time
PARTS = 8  # warps that share the keys of a row
FEWEST_WARPS = 4  # of a program whose keys are few
STAGES = 3  # blocks of keys on their way at once, what is at work among them
FLOAT32_STAGES = 2  # as many as fit a multiprocessor's memory
TILE = 32  # positions of a piece that share a program
BLOCK = 64  # keys that a program of a piece takes at a time
FLOAT32_BLOCK = 16

LOG2_E = tl.constexpr(1.4426950408889634)
LOWEST = tl.constexpr(-1e30)  # below every score, and finite: what is subtracted from it stays a number


def attend_rows(
    qkv: Tensor,
    q_norm: Tensor,
    k_norm: Tensor,
    eps: float,
    cos: Tensor,
    sin: Tensor,
    keys: Tensor,
    values: Tensor,
    rows: Tensor,
    positions: Tensor,
    new: int = 1,
    *,
    settled: bool = False,
) -> Tensor:
    """Attention of each row's newest positions over its own slot up to themselves; their keys and values are kept.

    Shapes: qkv [B * new, (heads + 2 kv_heads) * d], a row's positions side by side; q_norm, k_norm [d]; cos, sin
    [T, d]; keys, values [S, kv_heads, T, d]; rows [B] int64, the slot of each; positions [B] int64, the first new one
    of each; result [B * new, heads * d]. All but the integers in one dtype, float32 or bfloat16.

    Args:
        new: 1 or 2 positions a row.
        settled: rows and positions were written before this graph began, so that they may be read while the kernel
            ahead still runs.
    """
    _, kv_heads, T, d = keys.shape
    heads = qkv.shape[1] // d - 2 * kv_heads
    _check(heads, new, (qkv, q_norm, k_norm, cos, sin, keys, values, rows, positions))
    out = torch.empty(len(qkv), heads * d, device=qkv.device, dtype=qkv.dtype)
    parts = min(PARTS, triton.next_power_of_2(triton.cdiv(T, PART)))
    _attend_rows[(len(rows), kv_heads)](
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
        d**-0.5,
        T,
        HEADS=heads,
        KV_HEADS=kv_heads,
        D=d,
        WIDTH=triton.next_power_of_2(d),
        QUERIES=triton.next_power_of_2(new * heads // kv_heads),
        NEW=new,
        PARTS=parts,
        PART=PART,
        STAGES=STAGES if qkv.itemsize == 2 else FLOAT32_STAGES,
        SETTLED=settled,
        num_warps=max(parts, FEWEST_WARPS),
        **launch_options(),
    )
    return out


def attend_piece(
    qkv: Tensor,
    q_norm: Tensor,
    k_norm: Tensor,
    eps: float,
    cos: Tensor,
    sin: Tensor,
    keys: Tensor,
    values: Tensor,
    slot: Tensor,
    start: Tensor,
) -> Tensor:
    """Causal attention of P new positions of one slot over themselves and those before; keys and values are kept.

    A slot's last position is scratch: what lies at it or beyond (the padding of a piece) is written there, attends to
    what comes before, and nothing attends to it.

    Shapes: qkv [P, (heads + 2 kv_heads) * d]; slot, start [1] int64, on the device; the rest as in ``attend_rows``;
    result [P, heads * d].
    """
    _, kv_heads, T, d = keys.shape
    heads, P = qkv.shape[1] // d - 2 * kv_heads, len(qkv)
    _check(heads, 1, (qkv, q_norm, k_norm, cos, sin, keys, values, slot, start))
    out = torch.empty(P, heads * d, device=qkv.device, dtype=qkv.dtype)
    grid = (triton.cdiv(P, TILE), kv_heads)
    queries = max(16, triton.next_power_of_2(TILE * heads // kv_heads))
    half = qkv.itemsize == 2
    shape = {"HEADS": heads, "KV_HEADS": kv_heads, "D": d, "WIDTH": triton.next_power_of_2(d), "TILE": TILE}
    _place[grid](qkv, k_norm, cos, sin, keys, values, slot, start, eps, P, T, **shape, num_warps=4, **launch_options())
    _attend_piece[grid](
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


def _check(heads: int, new: int, tensors: tuple[Tensor, ...]) -> None:
    """The kernels index by shape alone and would read strangers' memory where these do not hold."""
    qkv, q_norm, k_norm, cos, sin, keys, values = tensors[:7]
    _, kv_heads, T, d = keys.shape
    assert heads > 0 == heads % kv_heads == d % 2
    assert new in (1, 2)
    assert qkv.shape[1] == (heads + 2 * kv_heads) * d
    assert keys.shape == values.shape
    assert q_norm.shape == k_norm.shape == (d,)
    assert cos.shape == sin.shape == (T, d)
    assert all(tensor.is_contiguous() for tensor in tensors)
    assert len({tensor.dtype for tensor in tensors[:7]}) == 1


@triton.jit
def _attend_rows(
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
    SETTLED: tl.constexpr,
    PDL: tl.constexpr,
):
    """One row and one key head: its query heads at its new positions.

    Keys come in blocks of ``PARTS`` times ``PART``. Every part, which is a warp's, keeps a softmax of its own over the
    keys that come by there, and they are joined at the end: nothing is exchanged between warps while keys come in.
    """
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        if not SETTLED:
            tl.extra.cuda.gdc_wait()
    row, kv_head = tl.program_id(0), tl.program_id(1)
    GROUP: tl.constexpr = HEADS // KV_HEADS
    FAN: tl.constexpr = (HEADS + 2 * KV_HEADS) * D
    slot = tl.load(rows + row)
    first = tl.minimum(tl.load(positions + row), T - NEW).to(tl.int32)  # a wild position stays in its own slot
    if PDL and SETTLED:
        tl.extra.cuda.gdc_wait()

    query = tl.arange(0, QUERIES)
    new_of = query // GROUP
    live = query < NEW * GROUP
    head = kv_head * GROUP + query % GROUP
    at = first + new_of
    source = qkv + (row * NEW + new_of) * FAN
    q = norm_and_rotate(source + head * D, q_norm, cos + at * D, sin + at * D, live, eps, D, WIDTH)

    news = tl.arange(0, NEW)
    dims = tl.arange(0, WIDTH)
    inside = (dims < D)[None, :]
    source = qkv + (row * NEW + news) * FAN + (HEADS + kv_head) * D
    angle = (first + news) * D
    new_k = norm_and_rotate(source, k_norm, cos + angle, sin + angle, news < NEW, eps, D, WIDTH)
    new_v = tl.load((source + KV_HEADS * D)[:, None] + dims[None, :], mask=inside, other=0.0)
    base = (slot * KV_HEADS + kv_head) * T * D
    place = base + angle[:, None] + dims[None, :]
    tl.store(keys + place, new_k, mask=inside)
    tl.store(values + place, new_v, mask=inside)

    factor = scale * LOG2_E
    parted_q = tl.broadcast_to(q[None, :, :], (PARTS, QUERIES, WIDTH))
    best = tl.full((PARTS, QUERIES), LOWEST, tl.float32)
    total = tl.zeros((PARTS, QUERIES), tl.float32)
    acc = tl.zeros((PARTS, QUERIES, WIDTH), tl.float32)
    offsets = tl.arange(0, PARTS)[:, None] * PART + tl.arange(0, PART)[None, :]
    for begin in tl.range(0, first, PARTS * PART, num_stages=STAGES):
        index = begin + offsets
        old = index < first
        there = old[:, :, None] & inside[None, :, :]
        block = base + index[:, :, None] * D + dims[None, None, :]
        k = tl.load(keys + block, mask=there, other=0.0)
        v = tl.load(values + block, mask=there, other=0.0)
        score = tl.dot(parted_q, tl.permute(k, (0, 2, 1)), input_precision="ieee") * factor
        score = tl.where(old[:, None, :], score, LOWEST)
        peak = tl.maximum(best, tl.max(score, axis=2))
        fade = tl.exp2(best - peak)
        share = tl.where(old[:, None, :], tl.exp2(score - peak[:, :, None]), 0.0)
        total = total * fade + tl.sum(share, axis=2)
        acc = tl.dot(share.to(v.dtype), v, acc * fade[:, :, None], input_precision="ieee")
        best = peak

    score = tl.sum(q.to(tl.float32)[:, None, :] * new_k.to(tl.float32)[None, :, :], axis=2) * factor
    score = tl.where(news[None, :] <= new_of[:, None], score, LOWEST)
    peak = tl.maximum(tl.max(best, axis=0), tl.max(score, axis=1))
    fade = tl.exp2(best - peak[None, :])
    share = tl.where(news[None, :] <= new_of[:, None], tl.exp2(score - peak[:, None]), 0.0)
    whole = tl.sum(total * fade, axis=0) + tl.sum(share, axis=1)
    share = share.to(new_v.dtype).to(tl.float32)
    result = tl.sum(acc * fade[:, :, None], axis=0)
    result += tl.sum(share[:, :, None] * new_v.to(tl.float32)[None, :, :], axis=1)
    target = out + ((row * NEW + new_of) * HEADS + head)[:, None] * D + dims[None, :]
    tl.store(target, (result / whole[:, None]).to(q.dtype), mask=live[:, None] & inside)


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
    """Keys and values of a tile of new positions, one key head."""
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    tile, kv_head = tl.program_id(0), tl.program_id(1)
    new = tile * TILE + tl.arange(0, TILE)
    live = new < P
    at = tl.minimum(tl.load(start) + new, T - 1)
    source = qkv + new * ((HEADS + 2 * KV_HEADS) * D) + (HEADS + kv_head) * D
    k = norm_and_rotate(source, k_norm, cos + at * D, sin + at * D, live, eps, D, WIDTH)
    dims = tl.arange(0, WIDTH)
    there = live[:, None] & (dims < D)[None, :]
    v = tl.load((source + KV_HEADS * D)[:, None] + dims[None, :], mask=there, other=0.0)
    place = ((tl.load(slot) * KV_HEADS + kv_head) * T + at)[:, None] * D + dims[None, :]
    tl.store(keys + place, k, mask=there)
    tl.store(values + place, v, mask=there)


@triton.jit
def _attend_piece(
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
    """A tile of new positions and one key head with its query heads: flash attention over the slot."""
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    tile, kv_head = tl.program_id(0), tl.program_id(1)
    GROUP: tl.constexpr = HEADS // KV_HEADS
    begin_at = tl.load(start).to(tl.int32)
    query = tl.arange(0, QUERIES)
    new = tile * TILE + query // GROUP
    live = (query < TILE * GROUP) & (new < P)
    head = kv_head * GROUP + query % GROUP
    at = tl.minimum(begin_at + new, T - 1)
    last = tl.minimum(at, T - 2)
    source = qkv + new * ((HEADS + 2 * KV_HEADS) * D) + head * D
    q = norm_and_rotate(source, q_norm, cos + at * D, sin + at * D, live, eps, D, WIDTH)

    dims = tl.arange(0, WIDTH)
    inside = dims < D
    base = (tl.load(slot) * KV_HEADS + kv_head) * T * D
    stop = tl.minimum(begin_at + tl.minimum((tile + 1) * TILE, P), T - 1)
    factor = scale * LOG2_E
    best = tl.full((QUERIES,), LOWEST, tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    acc = tl.zeros((QUERIES, WIDTH), tl.float32)
    offsets = tl.arange(0, BLOCK)
    for begin in tl.range(0, stop, BLOCK, num_stages=STAGES):
        index = begin + offsets
        there = (index < stop)[:, None] & inside[None, :]
        block = base + index[:, None] * D + dims[None, :]
        k = tl.load(keys + block, mask=there, other=0.0)
        v = tl.load(values + block, mask=there, other=0.0)
        score = tl.dot(q, k.T, input_precision="ieee") * factor
        score = tl.where(index[None, :] <= last[:, None], score, LOWEST)
        peak = tl.maximum(best, tl.max(score, axis=1))
        fade = tl.exp2(best - peak)
        share = tl.exp2(score - peak[:, None])
        total = total * fade + tl.sum(share, axis=1)
        acc = tl.dot(share.to(v.dtype), v, acc * fade[:, None], input_precision="ieee")
        best = peak
    target = out + (new * HEADS + head)[:, None] * D + dims[None, :]
    tl.store(target, (acc / total[:, None]).to(q.dtype), mask=live[:, None] & inside[None, :])
