"""Muon, an optimizer that orthogonalizes the updates of weight matrices.

Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024). The scale of the updates is
from Liu et al., "Muon is scalable for LLM training" (2025), section 2.2. With this scale, Muon can use AdamW's learning
rate and weight decay. We do not use torch.optim.Muon, because its learning rate is a Python number, which a captured
graph cannot change, and because it updates one matrix at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

# Coefficients of the Newton-Schulz iteration, which increase small singular values as fast as possible.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonal(x: Tensor, steps: int = 5) -> Tensor:
    """Return approximately orthogonalized matrices in bfloat16.

    The singular values are between about 0.7 and 1.2. Shape of input and output: [N, rows, columns].
    """
    a, b, c = COEFFICIENTS
    y = x.bfloat16()
    tall = y.shape[1] > y.shape[2]
    y = y.mT if tall else y
    y = y / (y.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = y @ y.mT
        y = a * y + (b * gram + c * gram @ gram) @ y
    return y.mT if tall else y


class Muon:
    """Muon optimizer that updates all matrices of the same shape together.

    The learning rate `rate` is a tensor, so that captured graphs use its current value.
    """

    def __init__(self, weights: Iterable[nn.Parameter], rate: Tensor, decay: float, momentum: float = 0.95) -> None:
        self.rate = rate
        self.decay = decay
        self.momentum = momentum
        self.groups: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
        for weight in weights:
            self.groups[weight.shape].append(weight)
        self.moving = {shape: torch.zeros(len(w), *shape, device=w[0].device) for shape, w in self.groups.items()}

    @torch.no_grad()
    def step(self) -> None:
        """Update the weights with their gradients."""
        for shape, weights in self.groups.items():
            gradient, moving = torch.stack([w.grad for w in weights]), self.moving[shape]
            moving.lerp_(gradient, 1 - self.momentum)
            update = orthogonal(gradient.lerp(moving, self.momentum))
            update = update * (-0.2 * max(shape) ** 0.5 * self.rate)
            torch._foreach_mul_(weights, 1 - self.rate * self.decay)
            torch._foreach_add_(weights, list(update.to(weights[0].dtype).unbind()))
