"""Tests for the selection of small_m_gemm, and of its compilation without a GPU.

tests/gpu/test_kernels.py tests its results on a GPU.
"""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from runtime.device.kernels import small_m_gemm
from runtime.device.kernels.small_m_gemm import SmallTiles
from tests.support.compiling import compiled

pytestmark = pytest.mark.slow

KIB = 1024
H200 = 227 * KIB


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate an H200 with programmatic dependent launch (PDL)."""
    monkeypatch.setattr(small_m_gemm, "pdl", lambda: True)
    monkeypatch.setattr(small_m_gemm, "wgmma", lambda: True)
    monkeypatch.setattr(small_m_gemm, "shared_memory", lambda: H200)


def tiles_of(
    rows: int, N: int, K: int, *, gated: bool = False, dtype: torch.dtype = torch.bfloat16
) -> SmallTiles | None:
    weight = torch.empty(2 * N if gated else N, K, device="meta", dtype=dtype)
    return small_m_gemm.choose_tiles(torch.empty(rows, K, device="meta", dtype=torch.bfloat16), weight, gated=gated)


@pytest.mark.usefixtures("card")
def test_small_m_gemm_is_used_for_few_rows_of_known_shapes() -> None:
    assert tiles_of(1, 1024, 2048) == SmallTiles(16, 1, 512, True)
    assert tiles_of(2, 1024, 2048) == tiles_of(8, 1024, 2048) == SmallTiles(16, 8, 512, True)
    assert tiles_of(9, 1024, 2048) is None
    assert tiles_of(1, 1000, 2048) is None
    assert tiles_of(1, 1024, 2048, gated=True) is None
    assert tiles_of(1, 2048, 6144) == SmallTiles(16, 1, 512, True)
    assert tiles_of(8, 2048, 6144) == SmallTiles(16, 8, 512, False), "eight rows come a step at a time"
    assert tiles_of(2, 6144, 2048, gated=True) is None, "measured to be slower"


@pytest.mark.usefixtures("card")
def test_small_m_gemm_is_not_used_without_pdl_or_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(small_m_gemm, "shared_memory", lambda: 99 * KIB)
    assert tiles_of(1, 1024, 2048) == SmallTiles(16, 1, 512, True)
    assert tiles_of(1, 2048, 6144) is None
    monkeypatch.setattr(small_m_gemm, "pdl", lambda: False)
    assert tiles_of(1, 1024, 2048) is None


@pytest.mark.usefixtures("card")
def test_int8_small_m_gemm_has_its_own_tiles_and_needs_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tiles_of(1, 3072, 1024, gated=True) == SmallTiles(64, 1, 256, True)
    assert tiles_of(1, 3072, 1024, gated=True, dtype=torch.int8) == SmallTiles(32, 1, 256, True)
    assert tiles_of(1, 1024, 2048, dtype=torch.int8) == SmallTiles(16, 1, 512, True)
    monkeypatch.setattr(small_m_gemm, "wgmma", lambda: False)
    assert tiles_of(1, 1024, 2048, dtype=torch.int8) is None, "the products of more rows have other bits there"
    assert tiles_of(1, 1024, 2048) == SmallTiles(16, 1, 512, True)


def test_small_m_gemm_compiles_for_hopper_and_fits() -> None:
    """The compiled order is: prefetch weights, allow the next kernel to start, wait.

    The kernel waits for the previous kernel.
    """
    kernels_made = compiled("small_m_gemm")
    assert len(kernels_made) == 16  # Kernels for 16-bit weights and for 8-bit weights.
    for kernel in kernels_made:
        assert kernel["shared"] <= H200, kernel
        assert -1 < kernel["at"][0] < kernel["at"][1] < kernel["at"][2] < kernel["at"][3], kernel
