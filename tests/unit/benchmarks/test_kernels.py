"""Test of the kernel benchmark's search for the fastest tile sizes."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from benchmarks.kernels import tiles
from runtime.device.kernels import gemm

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("eight_bits", [False, True])
@pytest.mark.parametrize("rows", [1, 64, 128])
def test_tile_search_measures_production_tiles_and_other_tiles(
    rows: int, eight_bits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "shared_memory", lambda: 227 * 1024)
    for product in tiles.PRODUCTS:
        found = dict.fromkeys(tiles.candidates(product, rows, eight_bits=eight_bits))
        service = gemm.choose_tiles(product.N, product.K, rows, gated=product.gated, eight_bits=eight_bits)
        assert service in found
        assert len(found) > 10
