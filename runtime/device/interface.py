"""What the engine asks of a device. The CPU's answer is the readable truth that the others are tested against."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Device(Protocol):
    """One device and its ways to attend.

    The engine keeps the keys and values of a layer in an arena [S, kv_heads, T, d], one slot a request.
    """

    name: str  # cpu, cuda or npu
    torch_device: torch.device
    dtype: torch.dtype  # what talker and code predictor use unless told otherwise

    def attend_prompt(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Causal attention of a prompt's newest positions over themselves and those before them.

        Shapes: q [1, heads, P, d]; k, v [1, kv_heads, N + P, d], the older ones first; result [1, heads, P, d].
        """

    def attend_rows(
        self, q: Tensor, keys: Tensor, values: Tensor, slots: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> Tensor:
        """Attention of each row's newest position over its own slot, up to its own length and no further.

        Shapes: q [B, heads, 1, d]; keys, values [S, kv_heads, T, d]; slots, lengths [B] on the host, lengths count
        the newest position; result [B, heads, 1, d].
        """
