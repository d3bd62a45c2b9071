"""The CPU: plain torch, one row at a time, nothing read that was not written. The truth for the other devices."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

SMALL = 100_000_000  # parameters below which a second thread costs more than it brings


def threads_for(networks: Iterable[nn.Module]) -> int:
    """CPU threads by the size of the largest network: one where its matrices are small, else torch's own choice.

    To wake a second thread takes about 0.1 ms for each of a frame's hundred products. The embedded voice has 9
    million parameters in its talker, the smallest published one several hundred.
    """
    largest = max((sum(part.numel() for part in network.parameters()) for network in networks), default=0)
    return 1 if largest < SMALL else torch.get_num_threads()


class CpuDevice:
    name = "cpu"
    dtype = torch.float32

    def __init__(self) -> None:
        self.torch_device = torch.device("cpu")

    def attend_prompt(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        new, total = q.shape[2], k.shape[2]
        if new == total:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        seen = torch.ones(new, total, device=q.device, dtype=torch.bool).tril(total - new)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)

    def attend_rows(
        self, q: Tensor, keys: Tensor, values: Tensor, slots: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> Tensor:
        B, heads, _, d = q.shape
        kv_heads = keys.shape[1]
        # The query heads that share a key head take the place of query positions: no mask, no copy of the keys.
        # Row by row: in a batch, how long the longest row is would change the last bits of the others.
        grouped = q.view(B, kv_heads, heads // kv_heads, d)
        rows = [
            F.scaled_dot_product_attention(
                grouped[row : row + 1], keys[slot, None, :, :length], values[slot, None, :, :length]
            )
            for row, (slot, length) in enumerate(zip(slots.tolist(), lengths.tolist(), strict=True))
        ]
        return torch.cat(rows).view(B, heads, 1, d)
