"""Code2Wav kernels for the codebook lookup, the depthwise convolution and the PCM output."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from runtime.device.kernels import pdl
from runtime.device.kernels.code2wav.streams import ROW, PastInputs, store_past_inputs, wait_for_previous

FULL_SCALE = tl.constexpr(32767.0)
ROUNDING = tl.constexpr(12582912.0)  # Constant for rounding, explained in snake.py.
STEPS_PER_PROGRAM = 1  # Time steps per program of ``normed_depthwise``.
SAMPLES_PER_PROGRAM = 64  # Samples per program of ``pcm``.


@triton.jit
def _look_up(
    codes,
    tables,
    out,
    GROUPS: tl.constexpr,
    SIZE: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    PDL: tl.constexpr,
):
    wait_for_previous(PDL)
    m = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for group in range(GROUPS):
        code = tl.load(codes + m * GROUPS + group)
        # The index is clamped, because an invalid code of one stream must not crash the other streams.
        code = tl.minimum(tl.maximum(code, 0), SIZE - 1)
        total += tl.load(tables + (group * SIZE + code) * WIDTH + c, c < WIDTH, 0.0).to(tl.float32)
    tl.store(out + m * WIDTH + c, total, c < WIDTH)


def look_up(codes: Tensor, tables: Tensor) -> Tensor:
    """Return the sum of the embeddings of all codebooks for each frame.

    Shapes: codes [B, T, Q] int32; tables [Q, size, W]; result [B, T, W].
    """
    B, T, groups = codes.shape
    _, size, width = tables.shape
    out = tables.new_empty(B, T, width)
    _look_up[(B * T,)](
        codes,
        tables,
        out,
        GROUPS=groups,
        SIZE=size,
        WIDTH=width,
        BLOCK=triton.next_power_of_2(width),
        PDL=pdl(),
        launch_pdl=pdl(),
        num_warps=4,
    )
    return out


@triton.jit(do_not_specialize=["M", "T", "total"])
def _each_channel(
    x,
    memory,
    rows,
    weight,
    bias,
    out,
    M,
    T,
    total,
    copy_stride,
    slot_stride,
    eps,
    C: tl.constexpr,
    TAPS: tl.constexpr,
    BLOCK: tl.constexpr,
    BM: tl.constexpr,
    PDL: tl.constexpr,
):
    wait_for_previous(PDL)
    LEFT: tl.constexpr = TAPS - 1
    program, programs = tl.program_id(0), tl.num_programs(0)
    store_past_inputs(x, memory, rows, program, programs, T, total, LEFT, copy_stride, slot_stride, C)
    m = program * BM + tl.arange(0, BM)
    inside = (m < M)[:, None]
    m = tl.minimum(m, M - 1)
    row, t = m // T, m % T
    slot, parity = tl.load(rows + row * ROW), tl.load(rows + row * ROW + 1)
    past = memory + (parity * copy_stride + slot * slot_stride)[:, None]
    c = tl.arange(0, BLOCK)
    has = (c < C)[None, :]
    y = tl.zeros((BM, BLOCK), tl.float32) + tl.load(bias + c, c < C, 0.0)[None, :]
    for tap in tl.static_range(TAPS):
        source = (t + tap - LEFT)[:, None]
        new = x + (row[:, None] * T + source) * C + c[None, :]
        old = past + (LEFT + source) * C + c[None, :]
        value = tl.load(tl.where(source >= 0, new, old), has, 0.0).to(tl.float32)
        y += value * tl.load(weight + tap * C + c, c < C, 0.0)[None, :]
    y -= tl.sum(y, 1)[:, None] / C
    y = tl.where(has, y, 0.0)
    y *= tl.rsqrt(tl.sum(y * y, 1)[:, None] / C + eps)
    tl.store(out + m[:, None] * C + c[None, :], y, has & inside)


def normed_depthwise(x: Tensor, weight: Tensor, bias: Tensor, rows: Tensor, past: PastInputs, eps: float) -> Tensor:
    """Compute a causal depthwise convolution and a LayerNorm without weights over a chunk.

    The kernel updates the earlier inputs in `past`.

    Shapes: x, result [B, T, C]; weight [taps, C] float32, oldest tap first; bias [C] float32; rows [B, 3] int32, see
    streams.py.
    """
    B, T, C = x.shape
    out = torch.empty_like(x)
    _each_channel[(-(-B * T // STEPS_PER_PROGRAM),)](
        x,
        past.memory,
        rows,
        weight,
        bias,
        out,
        B * T,
        T,
        B * past.left * C,
        *past.strides,
        eps,
        C=C,
        TAPS=len(weight),
        BLOCK=triton.next_power_of_2(C),
        BM=STEPS_PER_PROGRAM,
        PDL=pdl(),
        launch_pdl=pdl(),
        num_warps=4,
    )
    return out


@triton.jit(do_not_specialize=["T", "total"])
def _pcm(
    x,
    memory,
    rows,
    weight,
    bias,
    out,
    T,
    total,
    copy_stride,
    slot_stride,
    out_stride,
    C: tl.constexpr,
    TAPS: tl.constexpr,
    BLOCK: tl.constexpr,
    BM: tl.constexpr,
    PDL: tl.constexpr,
):
    wait_for_previous(PDL)
    LEFT: tl.constexpr = TAPS - 1
    block, row = tl.program_id(0), tl.program_id(1)
    blocks = tl.num_programs(0)
    program, programs = row * blocks + block, blocks * tl.num_programs(1)
    store_past_inputs(x, memory, rows, program, programs, T, total, LEFT, copy_stride, slot_stride, C)
    slot, parity = tl.load(rows + row * ROW), tl.load(rows + row * ROW + 1)
    past = memory + parity * copy_stride + slot * slot_stride
    t = block * BM + tl.arange(0, BM)
    inside = t < T
    acc = tl.zeros((BM, BLOCK), tl.float32)
    for first in range(0, C, BLOCK):
        c = (first + tl.arange(0, BLOCK))[None, :]
        for tap in tl.static_range(TAPS):
            source = (t + tap - LEFT)[:, None]
            new = x + (row * T + source) * C + c
            old = past + (LEFT + source) * C + c
            a = tl.load(tl.where(source >= 0, new, old), inside[:, None] & (c < C), 0.0).to(tl.float32)
            acc += a * tl.load(weight + tap * C + c, c < C, 0.0)
    wave = tl.sum(acc, 1) + tl.load(bias)
    sane = (wave == wave) & (tl.abs(wave) < float("inf"))
    wave = tl.where(sane, tl.minimum(tl.maximum(wave, -1.0), 1.0), 0.0) * FULL_SCALE
    wave = (wave + ROUNDING) - ROUNDING
    at = out + row * out_stride
    tl.store(at + t, wave.to(tl.int16), inside)
    broken = tl.sum(tl.where(inside & (sane == 0), 1, 0), 0)
    tl.store(at + T + block, tl.minimum(broken, 1).to(tl.int16))


def pcm(x: Tensor, weight: Tensor, bias: Tensor, rows: Tensor, past: PastInputs) -> Tensor:
    """Compute the last convolution, which has one output channel, and return 16-bit PCM.

    Shapes: x [B, T, C]; weight [taps, C] float32, oldest tap first; bias [1] float32; rows [B, 3] int32, see
    streams.py; result [B, T + flags] int16: samples, then a flag per `SAMPLES_PER_PROGRAM` samples, 0 if all samples
    were finite.
    """
    B, T, C = x.shape
    flags = -(-T // SAMPLES_PER_PROGRAM)
    out = torch.empty(B, T + flags, dtype=torch.int16, device=x.device)
    _pcm[(flags, B)](
        x,
        past.memory,
        rows,
        weight,
        bias,
        out,
        T,
        B * past.left * C,
        *past.strides,
        out.stride(0),
        C=C,
        TAPS=len(weight),
        BLOCK=max(16, C & -C),  # The largest power of two that divides C, at least 16.
        BM=SAMPLES_PER_PROGRAM,
        PDL=pdl(),
        launch_pdl=pdl(),
        num_warps=4,
    )
    return out
