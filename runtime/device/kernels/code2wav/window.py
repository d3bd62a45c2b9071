"""Kernel of Code2Wav's sliding window attention.

The kernel applies RoPE, writes keys and values to the stream's ring buffer and computes the attention. The size of the
ring is a power of two that is large enough for a window and a chunk. Frame p is at index p % ring. Scores are summed in
the order of the ring, with minus infinity outside of the window. The order of sums is therefore independent of the
chunks.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from runtime.device.kernels import pdl
from runtime.device.kernels.code2wav.streams import ROW, wait_for_previous

QUERIES = 16  # Number of queries per tile, which is the minimum for tensor cores.


def ring_frames_for(window: int, max_frames: int) -> int:
    """Return the size of a ring buffer in frames, for chunks of up to `max_frames` frames."""
    return max(16, triton.next_power_of_2(window - 1 + max_frames))


@triton.jit
def _turned(first, second, angles):
    """Apply split-half RoPE to the two halves of a head, each [frames, d / 2]."""
    cos, sin = tl.cos(angles), tl.sin(angles)
    return first * cos - second * sin, second * cos + first * sin


@triton.jit(do_not_specialize=["T"])
def _attend(
    qkv,
    rings,
    rows,
    frequencies,
    out,
    T,
    slot_stride,
    scale,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    RING: tl.constexpr,
    WINDOW: tl.constexpr,
    QB: tl.constexpr,
    HALF: tl.constexpr,
    PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):
    wait_for_previous(PDL)
    row, kv_head = tl.program_id(0), tl.program_id(1)
    KIND: tl.constexpr = qkv.dtype.element_ty
    SHARED: tl.constexpr = HEADS // KV_HEADS
    WIDTH: tl.constexpr = (HEADS + 2 * KV_HEADS) * D
    slot, start = tl.load(rows + row * ROW), tl.load(rows + row * ROW + 2)
    keys = rings + slot.to(tl.int64) * slot_stride + kv_head * RING * D
    values = keys + KV_HEADS * RING * D
    j = tl.arange(0, HALF)
    has = (j < D // 2)[None, :]
    frequency = tl.load(frequencies + j, j < D // 2, 0.0)[None, :]
    for begin in range(0, T, QB):
        t = begin + tl.arange(0, QB)
        new = (t < T)[:, None] & has
        angles = (start + t).to(tl.float32)[:, None] * frequency
        at = qkv + (row * T + t)[:, None] * WIDTH + (HEADS + kv_head) * D + j[None, :]
        offsets = ((start + t) % RING)[:, None] * D + j[None, :]
        first = tl.load(at, new, 0.0).to(tl.float32)
        second = tl.load(at + D // 2, new, 0.0).to(tl.float32)
        first, second = _turned(first, second, angles)
        tl.store(keys + offsets, first.to(KIND), new)
        tl.store(keys + offsets + D // 2, second.to(KIND), new)
        at += KV_HEADS * D
        tl.store(values + offsets, tl.load(at, new, 0.0), new)
        tl.store(values + offsets + D // 2, tl.load(at + D // 2, new, 0.0), new)
    tl.debug_barrier()  # This barrier makes the writes of each thread visible to all threads of the program.
    r = tl.arange(0, RING)
    held = r[:, None] * D + j[None, :]
    k_first, k_second = tl.load(keys + held, has, 0.0), tl.load(keys + held + D // 2, has, 0.0)
    v_first, v_second = tl.load(values + held, has, 0.0), tl.load(values + held + D // 2, has, 0.0)
    last = start + T - 1
    for member in tl.static_range(SHARED):
        head = kv_head * SHARED + member
        for begin in range(0, T, QB):
            t = begin + tl.arange(0, QB)
            new = (t < T)[:, None] & has
            angles = (start + t).to(tl.float32)[:, None] * frequency
            at = qkv + (row * T + t)[:, None] * WIDTH + head * D + j[None, :]
            first = tl.load(at, new, 0.0).to(tl.float32)
            second = tl.load(at + D // 2, new, 0.0).to(tl.float32)
            first, second = _turned(first, second, angles)
            scores = tl.dot(first.to(KIND), tl.trans(k_first), input_precision=PRECISION)
            scores = tl.dot(second.to(KIND), tl.trans(k_second), scores, input_precision=PRECISION)
            # Number of the frame that is stored at each index of the ring buffer: the newest frame p with p % RING
            # equal to the index.
            frame = last - (last - r + RING) % RING
            age = tl.minimum(start + t, last)[:, None] - frame[None, :]
            seen = (age >= 0) & (age < WINDOW) & (frame >= 0)[None, :]
            scores = tl.where(seen, scores * scale, float("-inf"))
            weights = tl.exp(scores - tl.max(scores, 1)[:, None])
            total = tl.sum(weights, 1)[:, None]
            weights = weights.to(KIND)
            address = out + (row * T + t)[:, None] * (HEADS * D) + head * D + j[None, :]
            tl.store(address, tl.dot(weights, v_first, input_precision=PRECISION) / total, new)
            tl.store(address + D // 2, tl.dot(weights, v_second, input_precision=PRECISION) / total, new)


def attend_window(qkv: Tensor, rings: Tensor, rows: Tensor, frequencies: Tensor, window: int) -> Tensor:
    """Store keys and values of a chunk, and return its sliding window attention.

    Shapes: qkv [B, T, (heads + 2 * kv_heads) * d]; rings [slots, 2, kv_heads, ring, d], keys then values, a slice of
    the memory of all streams; rows [B, 3] int32, see streams.py; frequencies [d / 2] float32; result [B, T, heads * d].
    T + window - 1 must be at most the size of the ring.
    """
    B, T, width = qkv.shape
    _, _, kv_heads, ring, D = rings.shape
    heads = width // D - 2 * kv_heads
    assert T + window - 1 <= ring
    assert rings[0].is_contiguous()
    out = qkv.new_empty(B, T, heads * D)
    _attend[(B, kv_heads)](
        qkv,
        rings,
        rows,
        frequencies,
        out,
        T,
        rings.stride(0),
        D**-0.5,
        HEADS=heads,
        KV_HEADS=kv_heads,
        D=D,
        RING=ring,
        WINDOW=window,
        QB=QUERIES,
        HALF=max(16, triton.next_power_of_2(D // 2)),
        PRECISION="tf32" if qkv.dtype is torch.bfloat16 else "ieee",
        PDL=pdl(),
        launch_pdl=pdl(),
        num_warps=4,
    )
    return out
