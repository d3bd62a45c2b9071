"""Triton kernels for the forward and backward pass of SnakeBeta.

Memory bandwidth limits the training of the vocoder, and these kernels need fewer reads and writes than PyTorch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def _forward(x, alpha, beta, out, channels, length, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * block + tl.arange(0, block)
    keep = at < length
    a = tl.exp(tl.load(alpha + row % channels))
    b = tl.exp(tl.load(beta + row % channels)) + 1e-9
    v = tl.load(x + row * length + at, mask=keep, other=0.0)
    s = tl.sin(v * a)
    tl.store(out + row * length + at, v + s * s / b, mask=keep)


@triton.jit
def _backward(x, alpha, beta, grad, dx, dalpha, dbeta, channels, length, blocks, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    at = part * block + tl.arange(0, block)
    keep = at < length
    a = tl.exp(tl.load(alpha + row % channels))
    e = tl.exp(tl.load(beta + row % channels))
    b = e + 1e-9
    v = tl.load(x + row * length + at, mask=keep, other=0.0)
    g = tl.load(grad + row * length + at, mask=keep, other=0.0)
    s = tl.sin(v * a)
    double = 2.0 * s * tl.cos(v * a)
    tl.store(dx + row * length + at, g * (1.0 + double * a / b), mask=keep)
    tl.store(dalpha + row * blocks + part, tl.sum(g * double * v * a / b, 0))
    tl.store(dbeta + row * blocks + part, tl.sum(-g * s * s * e / (b * b), 0))


class SnakeFunction(torch.autograd.Function):
    """SnakeBeta and its gradient in float32, with the same result as codec_model.Snake.

    Shapes: x [B, C, T]; alpha [C]; beta [C].
    """

    @staticmethod
    def forward(ctx, x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        batch, channels, length = x.shape
        _forward[(batch * channels, triton.cdiv(length, BLOCK))](x, alpha, beta, out, channels, length, BLOCK)
        ctx.save_for_backward(x, alpha, beta)
        return out

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, alpha, beta = ctx.saved_tensors
        batch, channels, length = x.shape
        blocks = triton.cdiv(length, BLOCK)
        dx = torch.empty_like(x)
        parts = torch.empty(2, batch, channels, blocks, dtype=torch.float32, device=x.device)
        _backward[(batch * channels, blocks)](x, alpha, beta, grad.contiguous(), dx, parts[0], parts[1], channels,
                                              length, blocks, BLOCK)  # fmt: skip
        sums = parts.sum((1, 3))
        return dx, sums[0], sums[1]
