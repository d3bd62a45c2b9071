"""Tests for the sampling noise, which is equal on all devices, and for top-k and top-p."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from runtime.device.cpu import CpuDevice
from runtime.engine.execution.noise import CpuNoise, HostNoise
from runtime.engine.execution.sampling import BatchSamplingParams, gumbel_noise, sample_codes

SEEDS = np.array([0, 1, 7, 2**32, 2**40 + 3, 2**63 - 1])
FRAMES = np.array([0, 1, 2, 500, 2**31, 4096])


def test_host_noise_is_bitwise_equal_to_device_noise() -> None:
    groups, widths = 5, (300, 200)
    noise = HostNoise(CpuDevice(), 8, widths, groups, 2)
    uses_noise = np.array([True, True, False, True, True, True])
    expected = gumbel_noise(torch.from_numpy(SEEDS), torch.from_numpy(FRAMES), groups, max(widths))
    noise.write(SEEDS, FRAMES, uses_noise)
    for codebook in range(groups):
        made, width = noise.of(codebook, 6), widths[codebook > 0]
        assert made.shape == (6, width)
        assert torch.equal(made[uses_noise], expected[uses_noise, codebook, :width])
        assert made.isfinite().all()


def test_cpu_noise_is_equal_for_every_row() -> None:
    groups, widths = 5, (300, 200)
    seeds, frames = torch.from_numpy(SEEDS), torch.from_numpy(FRAMES)
    first, others = CpuNoise(widths, groups).of(seeds, frames)
    expected = gumbel_noise(seeds, frames, groups, max(widths))
    assert torch.equal(first, expected[:, 0, : widths[0]])
    assert torch.equal(others, expected[:, 1:, : widths[1]])


def test_greedy_rows_need_no_noise() -> None:
    noise = HostNoise(CpuDevice(), 2, (300, 200), 3, 2)
    noise.write(SEEDS[:2], FRAMES[:2], np.zeros(2, np.bool_))
    assert not noise.of(0, 2).any()


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_combined_top_k_and_top_p_equal_two_separate_sorts(seed: int, ties: bool) -> None:
    """Top-k and top-p have any value or are disabled, with and without tied scores."""
    generator, rows, codes = torch.Generator().manual_seed(seed), 12, 90
    scores = torch.randn(rows, codes, generator=generator) * 3
    scores = scores.bfloat16().mul(2).round().div(2).float() if ties else scores
    scores[:, 5] = -torch.inf
    top_p = torch.rand(rows, generator=generator)
    top_p[::3] = 1.0
    top_p[1] = 1e-6
    top_k = torch.randint(1, codes + 1, (rows,), generator=generator)
    top_k[::4] = codes
    top_k[2] = 4 * codes
    noise = gumbel_noise(torch.arange(rows), torch.full((rows,), seed), 1, codes)[:, 0]
    picked = [
        sample_codes(
            scores,
            BatchSamplingParams(torch.ones(rows), top_k, top_p, torch.zeros(rows, dtype=torch.bool), codes, True, once),
            noise * 5,  # The noise is scaled, so that improbable codes among the allowed codes are also sampled.
        )
        for once in (False, True)
    ]
    assert torch.equal(*picked)
