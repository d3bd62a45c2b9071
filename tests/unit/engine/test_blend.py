"""Tests for the spherical interpolation of two x-vectors."""

from __future__ import annotations

import math

import torch

from runtime.engine.audio.voice_cache import blend

ONE, OTHER = torch.tensor([3.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0])


def test_blend_weights_from_0_to_1_give_the_arc_between_the_two_voices() -> None:
    for share, expected in ((0.0, ONE), (1.0, OTHER)):
        assert torch.allclose(blend([(1 - share, ONE), (share, OTHER)]), expected, atol=1e-6)
    middle = blend([(0.5, ONE), (0.5, OTHER)])
    assert math.isclose(float(middle.norm()), 2.0, rel_tol=1e-6)
    assert torch.allclose(middle / middle.norm(), torch.tensor([1.0, 1.0, 0.0]) / math.sqrt(2), atol=1e-6)


def test_blend_angle_is_proportional_to_the_weight() -> None:
    angles = []
    for share in (0.25, 0.5, 0.75):
        between = blend([(1 - share, ONE), (share, OTHER)])
        angles.append(math.degrees(math.acos(float(between @ ONE) / 3 / float(between.norm()))))
    assert [round(angle, 2) for angle in angles] == [22.5, 45.0, 67.5]


def test_blend_of_two_equal_voices_is_that_voice() -> None:
    assert torch.allclose(blend([(0.4, ONE), (0.6, ONE)]), ONE)
