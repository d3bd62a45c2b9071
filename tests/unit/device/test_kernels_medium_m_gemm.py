"""Tests for the selection of medium_m_gemm, and of its compilation without a GPU.

tests/gpu/test_kernels.py tests its results on a GPU.
"""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from runtime.device.kernels import medium_m_gemm
from runtime.device.kernels.gemm import PARTS
from runtime.device.kernels.medium_m_gemm import TILES, MediumTiles
from tests.support.compiling import compiled

pytestmark = pytest.mark.slow

KIB = 1024
H200 = 227 * KIB


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate an H200 with programmatic dependent launch (PDL)."""
    monkeypatch.setattr(medium_m_gemm, "pdl", lambda: True)
    monkeypatch.setattr(medium_m_gemm, "shared_memory", lambda: H200)


def tiles_of(
    rows: int,
    N: int,
    K: int,
    *,
    gated: bool = False,
    dtype: torch.dtype = torch.bfloat16,
    of_rows: torch.dtype = torch.bfloat16,
) -> MediumTiles | None:
    weight = torch.empty(2 * N if gated else N, K, device="meta", dtype=dtype)
    return medium_m_gemm.choose_tiles(torch.empty(rows, K, device="meta", dtype=of_rows), weight, gated=gated)


@pytest.mark.usefixtures("card")
def test_medium_m_gemm_is_used_for_up_to_64_rows_of_known_shapes() -> None:
    assert tiles_of(9, 2048, 6144) == tiles_of(16, 2048, 6144) == MediumTiles(16, 128, 8, 6)
    assert tiles_of(17, 2048, 6144) == tiles_of(32, 2048, 6144) == MediumTiles(16, 128, 6, 4)
    assert tiles_of(33, 2048, 6144) == tiles_of(64, 2048, 6144) == MediumTiles(16, 64, 12, 4)
    assert tiles_of(65, 2048, 6144) is None
    assert tiles_of(16, 2048, 6144, gated=True) is None, "no such matrix"
    assert tiles_of(64, 6144, 2048, gated=True) is None, "measured to be slower"
    assert tiles_of(2, 6144, 2048, gated=True) == MediumTiles(128, 64, 3, 3), "small_m_gemm has none for it"


@pytest.mark.usefixtures("card")
def test_medium_m_gemm_is_not_used_for_other_dtypes_without_pdl_or_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert tiles_of(16, 2048, 6144, dtype=torch.int8) is None
    assert tiles_of(16, 2048, 6144, dtype=torch.float32, of_rows=torch.float32) is None
    assert tiles_of(16, 2048, 6144, dtype=torch.float16, of_rows=torch.float16) is not None
    monkeypatch.setattr(medium_m_gemm, "shared_memory", lambda: 99 * KIB)
    assert tiles_of(16, 2048, 6144) is None
    assert tiles_of(16, 2048, 1024) == MediumTiles(32, 64, 4, 3)
    monkeypatch.setattr(medium_m_gemm, "pdl", lambda: False)
    assert tiles_of(16, 2048, 1024) is None


@pytest.mark.parametrize("shape", TILES, ids=str)
def test_every_matrix_is_split_evenly_and_fits_on_hopper(shape: tuple[int, int, bool]) -> None:
    N, K, gated = shape
    for rows, tiles in zip((16, 32, 64), TILES[shape], strict=True):
        if tiles is None:
            continue
        assert N * (1 + gated) % tiles.BN == 0
        steps, rest = divmod(K, PARTS * tiles.BK)
        assert rest == 0
        assert 2 <= tiles.rows_ahead <= tiles.weights_ahead <= steps
        assert medium_m_gemm.shared_bytes(tiles, rows) <= H200


def test_medium_m_gemm_compiles_for_hopper_and_fits() -> None:
    """The compiled order is: prefetch weights, allow the next kernel to start, wait.

    The kernel waits for the previous kernel.
    """
    kernels_made = compiled("medium_m_gemm")
    assert len(kernels_made) == 8
    for kernel in kernels_made:
        assert kernel["shared"] <= kernel["estimated"] <= H200, kernel
        assert -1 < kernel["at"][0] < kernel["at"][1] < kernel["at"][2] < kernel["at"][3], kernel
