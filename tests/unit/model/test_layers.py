"""Numerics of the shared layers, to the cast (docs/model.md 2.1): bfloat16 shows what float32 hides."""

from __future__ import annotations

import torch

from runtime.model.layers import RMSNorm, rotary, rotate


def test_the_norm_is_cast_before_its_weight() -> None:
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
    assert agree > 0.99  # a reciprocal square root and a division round apart here and there
    assert (norm(x) == cast_last).float().mean() < agree


def test_angles_are_reckoned_in_float32_and_then_cast() -> None:
    """In bfloat16 the position 30001 would be 29952."""
    positions = torch.tensor([0, 1, 30_001])
    cos, sin = rotary(positions, 8, 10_000.0, torch.bfloat16)
    angle = positions.double()[:, None] * 10_000.0 ** (-torch.arange(0, 8, 2).double() / 8)
    assert cos.dtype is torch.bfloat16
    torch.testing.assert_close(cos[:, :4].double(), angle.cos(), rtol=0, atol=8e-3)
    torch.testing.assert_close(sin[:, 4:].double(), angle.sin(), rtol=0, atol=8e-3)


def test_rotation_turns_the_halves_against_each_other() -> None:
    """Split-half RoPE: the pair (i, i + d/2) is a complex number that is turned by the position's angle."""
    x = torch.randn(1, 2, 5, 8, generator=torch.Generator().manual_seed(1))
    positions = torch.arange(5)
    cos, sin = rotary(positions, 8, 100.0, torch.float32)
    turned = rotate(x, cos, sin)
    rates = 100.0 ** (-torch.arange(0, 8, 2) / 8)
    expected = torch.complex(x[..., :4], x[..., 4:]) * torch.exp(1j * positions[:, None] * rates)
    torch.testing.assert_close(torch.complex(turned[..., :4], turned[..., 4:]), expected)
