"""Attention over the slots of the KV cache with Ascend's operators.

The operators need contiguous keys and an attention mask. All operators run on the AI cores. Keys and values are written
with one index into the flattened cache and read in blocks of positions, because CANN runs other forms of indexing on
the AI CPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from runtime.errors import AttentionRefused, DeviceUnavailable

# Value of the operator's argument `sparse_mode` with which the operator applies the given mask. A mask is True for keys
# to which a query does not attend, which is the opposite of torch. Without a mask, every query attends to every key. A
# single new position whose keys are all valid needs no mask.
EXPLICIT_MASK_MODE = 0
# Value of `sparse_mode` for a causal mask that is aligned to the last query and the last key. It is used for prefill
# chunks and for the first pass of the code predictor. The value 2 would align the mask to the first query and the first
# key, which is wrong if there are cached keys.
BOTTOM_RIGHT = 3
# Width and height of the mask that BOTTOM_RIGHT expects for any number of queries and keys.
COMPRESSED_MASK_SIZE = 2048

# Number of positions per block of the cache. The operator reads one block at a time, which has 32 KiB for a key head of
# width 128.
BLOCK_POSITIONS = 128

# Arguments: q, k, v, attention mask, sparse mode.
Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None, int], Tensor]


class NpuSlotAttention:
    """Attention over the slots of the KV cache for NPUs, with masks on the device.

    Implements ``SlotAttentionFunction``. Indices and masks are computed once for all layers. Positions beyond the end
    of a slot are written to its last position, to which no query attends.

    Shapes: rows [B] int64, slot numbers; starts [B] int64, first new position; like [S, kv_heads, T, d], the key cache
    of any layer, where T is a multiple of BLOCK_POSITIONS.
    """

    def __init__(self, attend: Attend, rows: Tensor, starts: Tensor, span: int, like: Tensor, new: int) -> None:
        B, (_, kv_heads, T, d) = len(rows), like.shape
        here = like.device
        self._attend = attend
        self._read = -(-span // BLOCK_POSITIONS) * BLOCK_POSITIONS
        # Index of each row's key heads among the key heads of all slots, [B, kv_heads].
        heads = rows[:, None] * kv_heads + torch.arange(kv_heads, device=here)
        positions = starts[:, None]
        if new > 1:
            positions = (positions + torch.arange(new, device=here)).clamp(max=T - 1)
        self._written = (heads[..., None] * T + positions[:, None]).flatten()
        blocks = torch.arange(self._read // BLOCK_POSITIONS, device=here)
        self._blocks = (heads[..., None] * (T // BLOCK_POSITIONS) + blocks).flatten()
        self._shape = B, kv_heads, self._read, d
        keys = torch.arange(self._read, device=here)
        # The operators read lengths only from the host, so every replay of a captured graph would use the same lengths.
        # Therefore masks on the device are used instead of lengths.
        self._unseen = (keys > positions[..., None])[:, None]  # Shape: [B, 1, new, read].
        self._later = keys[:, None] > positions[:, -1:, None, None]  # Shape: [B, 1, read, 1].

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Write the new keys and values to the slots, and return the attention output.

        Shapes: q, result [B, heads, new, d]; k, v [B, kv_heads, new, d]; keys, values [S, kv_heads, T, d].
        """
        for new, held in ((k, keys), (v, values)):
            held.view(-1, held.shape[3])[self._written] = new.reshape(-1, held.shape[3])
        return self._attend(q, self._of(keys), self._of(values), self._unseen, EXPLICIT_MASK_MODE)

    def _of(self, cache: Tensor) -> Tensor:
        """Gather the keys or values of the rows' slots.

        Shapes: held [S, kv_heads, T, d]; result [B, kv_heads, read, d], contiguous.
        """
        read = cache.view(-1, BLOCK_POSITIONS * cache.shape[3]).index_select(0, self._blocks).view(self._shape)
        # Keys and values after the end of a row may be NaN from an earlier request. They are set to zero, because 0 *
        # NaN is NaN.
        return read.masked_fill_(self._later, 0)


def check_attention(q: Tensor, k: Tensor, v: Tensor, unseen: Tensor | None, mode: int) -> None:
    """Check the shapes, dtypes and mask of an attention call.

    Ascend's operators do not check them.

    Raises:
        AttentionRefused: The operators would misinterpret the arguments.
        DeviceUnavailable: The operators do not support this number or size of attention heads.
    """
    _need(q.dim() == k.dim() == v.dim() == 4, "queries, keys and values must have the shape [B, heads, positions, d]")
    B, heads, P, d = q.shape
    kv_heads, T = k.shape[1:3]
    _need(k.shape == v.shape == (B, kv_heads, T, d), f"keys {tuple(k.shape)}, values {tuple(v.shape)} of {B} rows")
    _need(q.dtype is k.dtype is v.dtype, "queries, keys and values must have the same dtype")
    _need(all(part.is_contiguous() for part in (q, k, v)), "the operators support contiguous tensors only")
    if heads % kv_heads or heads > 64 * kv_heads or heads > 256:
        why = f"its attention supports up to 256 heads, 64 per key head; this checkpoint has {heads} and {kv_heads}"
        raise DeviceUnavailable(device="npu", why=why)
    if d > 512 or (d % 16 and q.dtype is not torch.float32):
        why = f"its attention supports head sizes of 16 to 512 in steps of 16 (float32: any); this checkpoint has {d}"
        raise DeviceUnavailable(device="npu", why=why)
    _need(
        mode in (EXPLICIT_MASK_MODE, BOTTOM_RIGHT),
        f"mode {mode} is unknown, or aligns the first query with the first key",
    )
    if unseen is None:
        _need((mode, P) == (EXPLICIT_MASK_MODE, 1), "without a mask, queries also attend to later keys")
        return
    _need(unseen.dtype is torch.bool, "the mask must be Boolean, and True hides a key")
    _need(unseen.is_contiguous(), "the operators support contiguous masks only")
    if mode == BOTTOM_RIGHT:
        size = COMPRESSED_MASK_SIZE
        mismatch = f"mode 3 needs a mask of {size} by {size}, and this one is {tuple(unseen.shape)}"
        _need(unseen.shape == (size, size), mismatch)
        _need(1 < P <= T, "mode 3 aligns the last query with the last key, so it cannot have more queries than keys")
    else:
        wrong = f"a mask {tuple(unseen.shape)} for {P} queries and {T} keys"
        _need(unseen.shape in ((P, T), (B, 1, P, T)), wrong)


def _need(holds: bool, why: str) -> None:
    if not holds:
        raise AttentionRefused(why=why)
