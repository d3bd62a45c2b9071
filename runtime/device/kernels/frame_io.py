"""Kernels for the start and the end of a frame.

The kernel `begin_frame` computes the talker's input from the slot state. The kernel `finish_frame` writes the codes to
the slot state. The reference implementation is the code without fused operations in runtime/engine/execution/frame.py.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from runtime.device.fused import SampleOutput, SlotState
from runtime.device.kernels import launch_options

WIDTH = 256  # Number of elements of a row that a program processes.


def begin_frame(
    rows: Tensor, state: SlotState, frames: Tensor, text: Tensor, addresses: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the talker's input embedding and position for each row's next frame.

    The input is the float32 sum of the last frame's code embeddings, cast, plus the embedding of the text id. EOS has
    no embedding. A row whose last code is EOS gets an arbitrary embedding, and its frame is discarded. A row without a
    frame gets an arbitrary embedding, too, because its first frame follows from the prompt.

    Shapes: rows [B] int64, slot numbers; frames [Q, V, H]; text [text_vocab, H] in the same dtype; addresses None or
    [2, S] int64, memory addresses of two tables for each slot, which replace frames[0] and text; results [B, H] and [B]
    int64.
    """
    Q, V, H = frames.shape
    S, L = state.trailing.shape
    assert state.codes.shape == (S, Q)
    assert text.shape[1] == H
    assert text.dtype == frames.dtype
    assert all(tensor.is_contiguous() for tensor in (rows, frames, text, *state))
    assert addresses is None or (addresses.shape == (2, S) and addresses.is_contiguous())
    out = torch.empty(len(rows), H, device=rows.device, dtype=frames.dtype)
    positions = torch.empty_like(rows)
    _begin[(len(rows), triton.cdiv(H, WIDTH))](
        rows,
        *state[:4],
        frames,
        text,
        addresses,
        out,
        positions,
        S,
        V,
        H,
        L,
        Q=Q,
        GROUPS=triton.next_power_of_2(Q),
        ADDRESSED=addresses is not None,
        WIDTH=WIDTH,
        num_warps=1,
        **launch_options(),
    )
    return out, positions


@triton.jit
def _begin(
    rows,
    position,
    frame,
    codes,
    trailing,
    frames,
    text,
    addresses,
    out,
    positions,
    S,
    V,
    H,
    L,
    Q: tl.constexpr,
    GROUPS: tl.constexpr,
    ADDRESSED: tl.constexpr,
    WIDTH: tl.constexpr,
    PDL: tl.constexpr,
):
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row, part = tl.program_id(0), tl.program_id(1)
    dims = part * WIDTH + tl.arange(0, WIDTH)
    inside = dims < H
    slot = tl.load(rows + row)
    # All loads of the slot's state come before the loads from the tables, so that the loads of each group overlap.
    at, frame_number = tl.load(position + slot), tl.load(frame + slot)
    codebook = tl.arange(0, GROUPS)
    code = tl.minimum(tl.load(codes + slot * Q + codebook, mask=codebook < Q, other=0), V - 1)
    # Clamp the index, because the scratch slot of padding rows has no frame.
    word = tl.load(trailing + slot * L + tl.maximum(tl.minimum(frame_number - 1, L - 1), 0))
    code_embedding = frames + ((codebook * V + code) * H)[:, None] + dims[None, :]
    if ADDRESSED:
        kind: tl.constexpr = tl.pointer_type(out.dtype.element_ty)
        first = tl.minimum(tl.load(codes + slot * Q), V - 1)
        codec = tl.multiple_of(tl.load(addresses + slot).to(kind), 16) + first * H + dims
        text = tl.multiple_of(tl.load(addresses + S + slot).to(kind), 16)
        parts = tl.load(code_embedding, mask=((codebook > 0) & (codebook < Q))[:, None] & inside[None, :], other=0.0)
        parts = tl.where((codebook == 0)[:, None], tl.load(codec, mask=inside, other=0.0)[None, :], parts)
    else:
        parts = tl.load(code_embedding, mask=(codebook < Q)[:, None] & inside[None, :], other=0.0)
    text_embedding = tl.load(text + word * H + dims, mask=inside, other=0.0)
    total = tl.sum(parts.to(tl.float32), axis=0)
    tl.store(out + row * H + dims, total.to(text_embedding.dtype) + text_embedding, mask=inside)
    if part == 0:
        tl.store(positions + row, at)


def finish_frame(rows: Tensor, state: SlotState, sampled: SampleOutput, eos: int) -> Tensor:
    """Advance the slot state of the rows after a frame, and return the frame's output.

    The first frame of a slot takes no position, because it follows from the last position of the prompt.

    Shapes: rows [B] int64, slot numbers; result [B, Q + 2] int64: the codes, 1 if code 0 is `eos`, and 1 if all logits
    were finite.
    """
    B, Q = sampled.codes.shape
    S, V = state.seen.shape
    assert state.codes.shape == (S, Q)
    assert sampled.finite.shape == (B, Q)
    assert rows.shape == (B,)
    assert all(tensor.is_contiguous() for tensor in (rows, *sampled, *state))
    output = torch.empty(B, Q + 2, device=rows.device, dtype=torch.int64)
    _finish[(B,)](
        rows,
        state.position,
        state.frame,
        state.codes,
        state.seen,
        *sampled,
        output,
        S,
        V,
        eos,
        Q=Q,
        WIDTH=triton.next_power_of_2(Q),
        num_warps=1,
        **launch_options(),
    )
    return output


@triton.jit
def _finish(
    rows,
    position,
    frame,
    last,
    seen,
    codes,
    finite,
    output,
    S,
    V,
    eos,
    Q: tl.constexpr,
    WIDTH: tl.constexpr,
    PDL: tl.constexpr,
):
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row, group = tl.program_id(0), tl.arange(0, WIDTH)
    inside = group < Q
    slot = tl.load(rows + row)
    new_codes = tl.load(codes + row * Q + group, mask=inside, other=0)
    number = tl.load(finite + row * Q + group, mask=inside, other=1) != 0
    first = tl.load(codes + row * Q)
    frames = tl.load(frame + slot)
    stop = tl.load(position + slot) + tl.minimum(frames, 1)
    # Factor that keeps the counters of the scratch slot at 0. The scratch slot is the last slot, to which padding rows
    # write.
    moves = (slot < S - 1).to(tl.int64)
    tl.store(position + slot, stop * moves)
    tl.store(frame + slot, (frames + 1) * moves)
    tl.store(last + slot * Q + group, new_codes, mask=inside)
    tl.store(seen + slot * V + first, first >= 0)
    tl.store(output + row * (Q + 2) + group, new_codes, mask=inside)
    tl.store(output + row * (Q + 2) + Q, (first == eos).to(tl.int64))
    tl.store(output + row * (Q + 2) + Q + 1, tl.min(number.to(tl.int32)).to(tl.int64))
