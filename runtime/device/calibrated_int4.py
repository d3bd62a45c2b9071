"""GPTQ int4 quantization, which minimizes the error of a layer's output.

GPTQ (Frantar et al., 2023, https://arxiv.org/abs/2210.17323) rounds one weight column after another. After each column,
it adjusts the columns that are not rounded yet to compensate for the error. GPTQ needs the second moments of the
layer's inputs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from runtime.device.quantized import GROUP_WEIGHTS, MIN_SCALE, Int4

# Candidates for the quantized range of a group, as fractions of the range of its weights. Weights outside are clamped.
RANGE_SHARES = (1.0, 0.95, 0.9, 0.85)
REFINEMENTS = 2  # Number of least-squares fits that compute scale and offset from the rounded values.
DAMPING = 0.1  # Constant added to the diagonal of `moments`, as a fraction of the mean of the diagonal.


def quantize_gptq(weight: Tensor, moments: Tensor) -> Int4:
    """Quantize a weight matrix to int4 with GPTQ, using the second moments of its inputs.

    Shapes: weight [N, K], K a multiple of GROUP_WEIGHTS; moments [K, K], the sum of the inputs' outer products.
    """
    rest, count = weight.float(), len(moments)
    damped = moments.double() + torch.eye(count) * (DAMPING * moments.diagonal().mean().double() + MIN_SCALE)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    shares = torch.linalg.cholesky(inverse, upper=True).float()
    values, scales, offsets = [], [], []
    for start in range(0, count, GROUP_WEIGHTS):
        group, after = rest[:, :GROUP_WEIGHTS].clone(), rest[:, GROUP_WEIGHTS:]
        scale, offset = _fitted(group)
        errors = torch.empty_like(group)
        for column in range(GROUP_WEIGHTS):
            place = start + column
            value = _rounded(group[:, column : column + 1], scale, offset)
            difference = group[:, column : column + 1] - (value * scale + offset)
            errors[:, column] = difference[:, 0] / shares[place, place]
            group[:, column:] -= torch.outer(errors[:, column], shares[place, place : start + GROUP_WEIGHTS])
            values.append(value + 8)
        rest = after - errors @ shares[start : start + GROUP_WEIGHTS, start + GROUP_WEIGHTS :]
        scales.append(scale)
        offsets.append(offset)
    return Int4(torch.cat(values, 1).int(), torch.cat(scales, 1).bfloat16(), torch.cat(offsets, 1).bfloat16())


def _fitted(group: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scale and offset of each row with the smallest squared error.

    Shapes: group [N, GROUP]; results [N, 1].
    """
    low, high = (bound[:, None] for bound in group.aminmax(dim=1))
    best = torch.zeros_like(low), low, torch.full_like(low, torch.inf)
    for shrink in RANGE_SHARES:
        scale = _in_bfloat16((high - low) * shrink / 15).clamp_(min=MIN_SCALE)
        offset = _in_bfloat16((low + high + scale) / 2)
        for _ in range(REFINEMENTS):
            values = _rounded(group, scale, offset)
            centered = values - values.mean(1, keepdim=True)
            variance = centered.square().sum(1, keepdim=True)
            scale = torch.where(variance > 0, _in_bfloat16((centered * group).sum(1, keepdim=True) / variance), scale)
            scale = torch.where(scale == 0, MIN_SCALE, scale)
            offset = _in_bfloat16((group - scale * values).mean(1, keepdim=True))
        error = (_rounded(group, scale, offset) * scale + offset - group).square().sum(1, keepdim=True)
        best = tuple(  # type: ignore[assignment]
            torch.where(error < best[2], new, old) for new, old in zip((scale, offset, error), best, strict=True)
        )
    return best[0], best[1]


def _rounded(weights: Tensor, scale: Tensor, offset: Tensor) -> Tensor:
    """Return the nearest int4 values, from -8 to 7, as floats."""
    return ((weights - offset) / scale).round_().clamp_(-8, 7)


def _in_bfloat16(numbers: Tensor) -> Tensor:
    """Round to bfloat16, the dtype in which scales and offsets are stored."""
    return numbers.bfloat16().float()
