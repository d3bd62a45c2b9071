"""Decoder layer operations that use a device's own RMSNorm operator.

With this operator, a layer needs fewer launches. The operator divides by the root mean square and casts the result. The
weight is applied afterwards, as in runtime/model/layers.py, so results are equal to the reference implementation. All
query and key heads are normalized in one launch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from runtime.model.layers import Attention, Operations, RMSNorm, SwiGLU, rotate
from runtime.model.products import Linear

UnitNorm = Callable[[Tensor, float], Tensor]  # Arguments: input x, epsilon.


class NormedOperations(Operations):
    """Decoder layer operations for devices that have a `unit_norm` operator.

    Each checkpoint needs a separate instance, because the instance caches norm weights.
    """

    def __init__(self, unit_norm: UnitNorm) -> None:
        self._unit_norm = unit_norm
        # Norm weights of the query heads and key heads, concatenated for each attention layer. Shape: [heads +
        # kv_heads, d].
        self._heads: dict[Attention, Tensor] = {}

    def norm(self, x: Tensor, norm: RMSNorm) -> Tensor:
        return norm.weight * self._unit_norm(x, norm.eps)

    def norm_linear(self, x: Tensor, norm: RMSNorm, linear: Linear) -> Tensor:
        output: Tensor = linear(self.norm(x, norm))
        return output

    def norm_swiglu(self, x: Tensor, norm: RMSNorm, mlp: SwiGLU) -> Tensor:
        return mlp.inner(self.norm(x, norm))

    def heads(self, attention: Attention, qkv: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        B, T, _ = qkv.shape
        queries, keys = attention.heads, attention.kv_heads
        heads = qkv.view(B, T, -1, attention.head_dim)
        normed = self._unit_norm(heads[:, :, : queries + keys], attention.q_norm.eps) * self._weight_of(attention)
        turned = rotate(normed.transpose(1, 2), cos, sin)
        return turned[:, :queries], turned[:, queries:], heads[:, :, queries + keys :].transpose(1, 2)

    def _weight_of(self, attention: Attention) -> Tensor:
        if attention not in self._heads:
            parts = (attention.q_norm.weight, attention.heads), (attention.k_norm.weight, attention.kv_heads)
            self._heads[attention] = torch.cat([weight.detach().expand(count, -1) for weight, count in parts])
        return self._heads[attention]
