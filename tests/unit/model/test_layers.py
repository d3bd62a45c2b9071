"""Tests for the numerics of decoder layers, including the dtype of each step.

The rules are in docs/model.md 2.1.
"""

from __future__ import annotations

import pytest
import torch

from runtime.device.cpu import unit_norm
from runtime.model.config import DecoderConfig
from runtime.model.layers import Attention, Operations, RMSNorm, rotary, rotate
from runtime.model.normed_operations import NormedOperations


def test_rms_norm_casts_before_applying_the_weight() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, 64, generator=generator).bfloat16()
    norm = RMSNorm(64, 1e-6).bfloat16()
    norm.weight.data.copy_(torch.rand(64, generator=generator) + 0.5)
    wide = x.float()
    scaled = wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    cast_first = norm.weight * scaled.bfloat16()
    cast_last = (norm.weight.float() * scaled).bfloat16()
    assert not torch.equal(cast_first, cast_last)
    agree = (norm(x) == cast_first).float().mean()
    assert agree > 0.99  # A reciprocal square root and a division round differently for some values.
    assert (norm(x) == cast_last).float().mean() < agree


def test_rotary_angles_are_computed_in_float32_and_then_cast() -> None:
    """bfloat16 would round the position 30001 to 29952."""
    positions = torch.tensor([0, 1, 30_001])
    cos, sin = rotary(positions, 8, 10_000.0, torch.bfloat16)
    angle = positions.double()[:, None] * 10_000.0 ** (-torch.arange(0, 8, 2).double() / 8)
    assert cos.dtype is torch.bfloat16
    torch.testing.assert_close(cos[:, :4].double(), angle.cos(), rtol=0, atol=8e-3)
    torch.testing.assert_close(sin[:, 4:].double(), angle.sin(), rtol=0, atol=8e-3)


def test_rotary_embedding_pairs_the_two_halves_of_a_head() -> None:
    """RoPE rotates the pair (i, i + d/2) by the angle of the position."""
    x = torch.randn(1, 2, 5, 8, generator=torch.Generator().manual_seed(1))
    positions = torch.arange(5)
    cos, sin = rotary(positions, 8, 100.0, torch.float32)
    turned = rotate(x, cos, sin)
    rates = 100.0 ** (-torch.arange(0, 8, 2) / 8)
    expected = torch.complex(x[..., :4], x[..., 4:]) * torch.exp(1j * positions[:, None] * rates)
    torch.testing.assert_close(torch.complex(turned[..., :4], turned[..., 4:]), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 3])
def test_fused_rms_norm_on_a_cpu_is_bitwise_equal_to_the_reference(dtype: torch.dtype, rows: int) -> None:
    """Queries and keys are normalised together or separately, fused or with single operations."""
    generator = torch.Generator().manual_seed(2)
    config = DecoderConfig(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16)
    attention, norm = Attention(config).to(dtype), RMSNorm(64, 1e-6).to(dtype)
    for part in (attention.q_norm, attention.k_norm, norm):
        part.weight.data.copy_(torch.rand(part.weight.shape, generator=generator) + 0.5)
    x = torch.randn(rows, 2, 64, generator=generator).to(dtype)
    qkv = torch.randn(rows, 2, 8 * 16, generator=generator).to(dtype)
    cos, sin = (table[None, None] for table in rotary(torch.arange(2), 16, 100.0, dtype))
    plain, normed = Operations(), NormedOperations(unit_norm)
    wide = x.float()
    scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + norm.eps)
    assert torch.equal(normed.norm(x, norm), norm.weight * scaled.to(dtype))
    made, expected = (ops.heads(attention, qkv, cos, sin) for ops in (normed, plain))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(made, expected, strict=True))
