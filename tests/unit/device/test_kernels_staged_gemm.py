"""Tests for the selection and compilation of the kernels small_m_gemm and medium_m_gemm.

No GPU is needed. tests/gpu/test_kernels.py tests the results on a GPU.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from runtime.device.kernels import medium_m_gemm, small_m_gemm
from runtime.device.kernels.gemm import PARTS
from runtime.device.kernels.medium_m_gemm import EIGHT_BITS, ROWS, TILES, MediumTiles
from runtime.device.kernels.small_m_gemm import SmallTiles
from tests.support.compiling import compiled

pytestmark = pytest.mark.slow

KIB = 1024
H200 = 227 * KIB


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate an H200 with programmatic dependent launch (PDL)."""
    for module in (small_m_gemm, medium_m_gemm):
        monkeypatch.setattr(module, "wgmma", lambda: True)
        monkeypatch.setattr(module, "pdl", lambda: True)
        monkeypatch.setattr(module, "shared_memory", lambda: H200)


def tiles_of(
    module: ModuleType,
    rows: int,
    N: int,
    K: int,
    *,
    gated: bool = False,
    dtype: torch.dtype = torch.bfloat16,
    of_rows: torch.dtype = torch.bfloat16,
) -> Any:
    weight = torch.empty(2 * N if gated else N, K, device="meta", dtype=dtype)
    return module.choose_tiles(torch.empty(rows, K, device="meta", dtype=of_rows), weight, gated=gated)


small, medium = partial(tiles_of, small_m_gemm), partial(tiles_of, medium_m_gemm)


@pytest.mark.usefixtures("card")
def test_small_m_gemm_is_used_for_few_rows_of_known_shapes() -> None:
    assert small(1, 1024, 2048) == SmallTiles(16, 1, 512, True)
    assert small(2, 1024, 2048) == small(8, 1024, 2048) == SmallTiles(16, 8, 512, True)
    assert small(9, 1024, 2048) is None
    assert small(1, 1000, 2048) is None
    assert small(1, 1024, 2048, gated=True) is None
    assert small(1, 2048, 6144) == SmallTiles(16, 1, 512, True)
    assert small(8, 2048, 6144) == SmallTiles(16, 8, 512, False), "eight rows come a step at a time"
    assert small(2, 6144, 2048, gated=True) is None, "measured to be slower"


@pytest.mark.usefixtures("card")
def test_small_m_gemm_is_not_used_without_pdl_or_enough_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_m_gemm, "shared_memory", lambda: 99 * KIB)
    assert small(1, 1024, 2048) == SmallTiles(16, 1, 512, True)
    assert small(1, 2048, 6144) is None
    monkeypatch.setattr(small_m_gemm, "pdl", lambda: False)
    assert small(1, 1024, 2048) is None


@pytest.mark.usefixtures("card")
def test_int8_small_m_gemm_has_its_own_tiles_and_needs_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    assert small(1, 3072, 1024, gated=True) == SmallTiles(64, 1, 256, True)
    assert small(1, 3072, 1024, gated=True, dtype=torch.int8) == SmallTiles(32, 1, 256, True)
    assert small(1, 1024, 2048, dtype=torch.int8) == SmallTiles(16, 1, 512, True)
    monkeypatch.setattr(small_m_gemm, "wgmma", lambda: False)
    assert small(1, 1024, 2048, dtype=torch.int8) is None, "the products of more rows have other bits there"
    assert small(1, 1024, 2048) == SmallTiles(16, 1, 512, True)


@pytest.mark.usefixtures("card")
def test_medium_m_gemm_is_used_for_up_to_64_rows_of_known_shapes() -> None:
    assert medium(9, 2048, 6144) == medium(16, 2048, 6144) == MediumTiles(16, 128, 8, 6)
    assert medium(17, 2048, 6144) == medium(32, 2048, 6144) == MediumTiles(16, 128, 6, 4)
    assert medium(33, 2048, 6144) == medium(64, 2048, 6144) == MediumTiles(16, 64, 12, 4)
    assert medium(65, 2048, 6144) is None
    assert medium(16, 2048, 6144, gated=True) is None, "no such matrix"
    assert medium(64, 6144, 2048, gated=True) is None, "measured to be slower"
    assert medium(2, 6144, 2048, gated=True) == MediumTiles(128, 64, 3, 3), "small_m_gemm has none for it"


@pytest.mark.usefixtures("card")
def test_medium_m_gemm_needs_16_bit_rows_pdl_and_enough_shared_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert medium(16, 2048, 6144, dtype=torch.float32, of_rows=torch.float32) is None
    assert medium(16, 2048, 6144, dtype=torch.float16, of_rows=torch.float16) is not None
    monkeypatch.setattr(medium_m_gemm, "shared_memory", lambda: 99 * KIB)
    assert medium(16, 2048, 6144) is None
    assert medium(16, 2048, 1024) == MediumTiles(32, 64, 4, 3)
    monkeypatch.setattr(medium_m_gemm, "pdl", lambda: False)
    assert medium(16, 2048, 1024) is None


@pytest.mark.usefixtures("card")
def test_int8_medium_m_gemm_has_its_own_tiles_and_needs_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    assert medium(32, 2048, 6144, dtype=torch.int8) == EIGHT_BITS[2048, 6144, False][1]
    assert medium(65, 2048, 2048, dtype=torch.int8) == EIGHT_BITS[2048, 2048, False][3]
    assert medium(65, 2048, 6144, dtype=torch.int8) is None, "measured to be slower"
    assert medium(129, 2048, 2048, dtype=torch.int8) is None
    assert medium(32, 2048, 6144, dtype=torch.int8, of_rows=torch.float32) is None
    monkeypatch.setattr(medium_m_gemm, "wgmma", lambda: False)
    assert medium(32, 2048, 6144, dtype=torch.int8) is None, "the products of more rows have other bits there"
    assert medium(32, 2048, 6144) == TILES[2048, 6144, False][1]


@pytest.mark.parametrize("shape", TILES, ids=str)
def test_every_matrix_is_split_evenly_and_fits_into_hopper_shared_memory(shape: tuple[int, int, bool]) -> None:
    N, K, gated = shape
    for itemsize, candidates in ((2, TILES[shape]), (1, EIGHT_BITS[shape])):
        for rows, tiles in zip(ROWS, candidates, strict=False):
            if tiles is None:
                continue
            assert N * (1 + gated) % tiles.BN == 0
            steps, rest = divmod(K, PARTS * tiles.BK)
            assert rest == 0
            assert 2 <= tiles.rows_ahead <= tiles.weights_ahead <= steps
            assert medium_m_gemm.shared_bytes(tiles, rows, itemsize) <= H200


@pytest.mark.parametrize(("name", "count"), [("small_m_gemm", 16), ("medium_m_gemm", 18)])
def test_kernels_compile_for_hopper_and_fit_into_shared_memory(name: str, count: int) -> None:
    """Each kernel prefetches weights, lets the next kernel start, and waits for the previous.

    Both kernels have variants for 16-bit and for 8-bit weights.
    """
    kernels_made = compiled(name)
    assert len(kernels_made) == count
    for kernel in kernels_made:
        assert kernel["shared"] <= kernel.get("estimated", H200) <= H200, kernel
        assert -1 < kernel["at"][0] < kernel["at"][1] < kernel["at"][2] < kernel["at"][3], kernel
