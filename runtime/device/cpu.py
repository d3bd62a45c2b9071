"""The CPU: plain torch, one row at a time, nothing read that was not written. The truth for the other devices."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


class CpuDevice:
    name = "cpu"
    dtype = torch.float32

    def __init__(self) -> None:
        self.torch_device = torch.device("cpu")

    def attend_prompt(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    def attend_rows(
        self, q: Tensor, keys: Tensor, values: Tensor, slots: Sequence[int], lengths: Sequence[int]
    ) -> Tensor:
        B, heads, _, d = q.shape
        kv_heads = keys.shape[1]
        # The query heads that share a key head take the place of query positions: no mask, no copy of the keys.
        grouped = q.view(B, kv_heads, heads // kv_heads, d)
        rows = [
            F.scaled_dot_product_attention(grouped[row], keys[slot, :, :length], values[slot, :, :length])
            for row, (slot, length) in enumerate(zip(slots, lengths, strict=True))
        ]
        return torch.stack(rows).view(B, heads, 1, d)
