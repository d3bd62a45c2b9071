"""Tests of the kernel benchmark with Triton's interpreter: launches and tile search."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from benchmarks.kernels import launches, tiles
from runtime.device.kernels import gemm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter is not needed beside a card"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def test_each_kernel_accepts_the_arguments_of_its_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "CARD", torch.device("cpu"))
    monkeypatch.setattr(launches, "TEXT_ROWS", 3000)
    # The first case of each kernel remains.
    cases = {case.kernel: case for case in reversed(list(launches.launches((1,))))}
    assert set(cases) == {"decode_attention", "sample", "begin", "finish", "prefill_attention"}
    for case in cases.values():
        assert case.bytes > 0
        case.launch(0)


@pytest.mark.parametrize("eight_bits", [False, True])
@pytest.mark.parametrize("rows", [1, 64, 128])
def test_tile_search_times_production_tiles_and_others(
    rows: int, eight_bits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "shared_memory", lambda: 227 * 1024)
    for product in tiles.PRODUCTS:
        found = dict.fromkeys(tiles.candidates(product, rows, eight_bits=eight_bits))
        service = gemm.choose_tiles(product.N, product.K, rows, gated=product.gated, eight_bits=eight_bits)
        assert service in found
        assert len(found) > 10
