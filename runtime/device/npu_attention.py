"""Attention over slots with Ascend's operators, which need contiguous keys and masks.

All operators run on the AI cores. Keys and values are written by one index into flattened rows, and read in blocks of
whole positions (docs/npu.md).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from runtime.errors import AttentionRefused, DeviceUnavailable

# Mask modes. The mask is True for keys to which a query does NOT attend, which is the opposite of torch's convention.
EXPLICIT_MASK_MODE = 0  # Explicit mask, or no mask: every query attends to every key.
# Causal mask that is aligned at the last query and key. Mode 2 aligns at the first ones and is not used.
BOTTOM_RIGHT = 3
COMPRESSED_MASK_SIZE = 2048  # Size of the square mask that mode 3 expects for any number of queries and keys.

BLOCK_POSITIONS = 128  # Positions of a slot per step: 32 KiB for a key head of width 128.

Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None, int], Tensor]  # Arguments: q, k, v, unseen, mode.


class NpuSlots:
    """Implementation of ``AttendSlots`` with lengths on the device.

    Indices and masks are computed once for all layers.

    Shapes: rows, starts [B] int64, where starts is the first new position of each; like, a layer's keys, [S, kv_heads,
    T, d], where BLOCK_POSITIONS divides T. Positions after T are written to the last one, to which no query attends.
    """

    def __init__(self, attend: Attend, rows: Tensor, starts: Tensor, span: int, like: Tensor, new: int) -> None:
        B, (_, kv_heads, T, d) = len(rows), like.shape
        here = like.device
        self._attend = attend
        self._read = -(-span // BLOCK_POSITIONS) * BLOCK_POSITIONS
        # [B, kv_heads], indices among the heads of all slots.
        heads = rows[:, None] * kv_heads + torch.arange(kv_heads, device=here)
        positions = starts[:, None]
        if new > 1:
            positions = (positions + torch.arange(new, device=here)).clamp(max=T - 1)
        self._written = (heads[..., None] * T + positions[:, None]).flatten()
        blocks = torch.arange(self._read // BLOCK_POSITIONS, device=here)
        self._blocks = (heads[..., None] * (T // BLOCK_POSITIONS) + blocks).flatten()
        self._shape = B, kv_heads, self._read, d
        keys = torch.arange(self._read, device=here)
        # A graph would make lengths constant, because the operators read lengths only from the host. Masks on the
        # device are used instead.
        self._unseen = (keys > positions[..., None])[:, None]  # [B, 1, new, read]
        self._behind = keys[:, None] > positions[:, -1:, None, None]  # [B, 1, read, 1]

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Compute attention.

        Shapes: q [B, heads, new, d]; k, v [B, kv_heads, new, d]; keys, values as `like`; result as q.
        """
        for new, held in ((k, keys), (v, values)):
            held.view(-1, held.shape[3])[self._written] = new.reshape(-1, held.shape[3])
        return self._attend(q, self._of(keys), self._of(values), self._unseen, EXPLICIT_MASK_MODE)

    def _of(self, held: Tensor) -> Tensor:
        """Gather the positions of the rows.

        Shapes: held [S, kv_heads, T, d]; result [B, kv_heads, read, d], contiguous.
        """
        read = held.view(-1, BLOCK_POSITIONS * held.shape[3]).index_select(0, self._blocks).view(self._shape)
        # Values after a row's end may be NaN from an earlier request. They are set to zero, because 0 * NaN is NaN.
        return read.masked_fill_(self._behind, 0)


def check_attention(q: Tensor, k: Tensor, v: Tensor, unseen: Tensor | None, mode: int) -> None:
    """Check that the operators will interpret a mask as intended.

    The operators do not report errors themselves.

    Raises:
        AttentionRefused: The operators would interpret the call differently.
        DeviceUnavailable: The operators do not support the checkpoint's heads.
    """
    _need(q.dim() == k.dim() == v.dim() == 4, "queries, keys and values are [B, heads, positions, d]")
    B, heads, P, d = q.shape
    kv_heads, T = k.shape[1:3]
    _need(k.shape == v.shape == (B, kv_heads, T, d), f"keys {tuple(k.shape)}, values {tuple(v.shape)} of {B} rows")
    _need(q.dtype is k.dtype is v.dtype, "queries, keys and values have one dtype")
    _need(all(part.is_contiguous() for part in (q, k, v)), "the operators take contiguous tensors only")
    if heads % kv_heads or heads > 64 * kv_heads or heads > 256:
        why = f"its attention takes up to 256 heads, up to 64 to a key head; this checkpoint has {heads} and {kv_heads}"
        raise DeviceUnavailable(device="npu", why=why)
    if d > 512 or (d % 16 and q.dtype is not torch.float32):
        why = f"its attention takes heads of up to 512 in sixteens; this checkpoint's have {d} (float32 takes any)"
        raise DeviceUnavailable(device="npu", why=why)
    _need(
        mode in (EXPLICIT_MASK_MODE, BOTTOM_RIGHT),
        f"mode {mode} aligns queries and keys at the first of each, or is unknown",
    )
    if unseen is None:
        _need((mode, P) == (EXPLICIT_MASK_MODE, 1), "without a mask every query sees every key, also those after it")
        return
    _need(unseen.dtype is torch.bool, "True masks here: a mask of numbers may mean the opposite")
    _need(unseen.is_contiguous(), "the operators take contiguous masks only")
    if mode == BOTTOM_RIGHT:
        size = COMPRESSED_MASK_SIZE
        mismatch = f"mode 3 takes one mask of {size} by {size}, and this one is {tuple(unseen.shape)}"
        _need(unseen.shape == (size, size), mismatch)
        _need(1 < P <= T, "mode 3 counts from the last query and the last key: no more queries than keys")
    else:
        wrong = f"a mask {tuple(unseen.shape)} for {P} queries and {T} keys"
        _need(unseen.shape in ((P, T), (B, 1, P, T)), wrong)


def _need(holds: bool, why: str) -> None:
    if not holds:
        raise AttentionRefused(why=why)
