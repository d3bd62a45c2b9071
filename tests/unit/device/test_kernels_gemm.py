"""Tests for matrix multiplication kernels in Triton's interpreter, compared with PyTorch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("triton")

from runtime.device import kernels
from runtime.device.kernels.gemm import LARGE, TILES, Tiles, gemm, swiglu
from runtime.device.quantized import DequantizedInt8, Int8
from tests.support.compiling import compiled
from tests.support.cuda import interpreted

pytestmark = [*interpreted, pytest.mark.usefixtures("bounds_of_loops")]

N, K = 64, 256
WAYS = [
    Tiles(16, 64, 1, 4, 2),
    Tiles(16, 128, 4, 4, 2),
    Tiles(32, 64, 4, 4, 2),
    Tiles(64, 32, 4, 4, 2),
    Tiles(32, 64, 4, 4, 2, split_k=True),
    Tiles(64, 32, 4, 4, 2, split_k=True),
    Tiles(64, 32, 4, 8, 2, BM=128),
]
per_way = pytest.mark.parametrize("tiles", WAYS, ids=str)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@per_way
@pytest.mark.parametrize("rows", [1, 5, 70, 150])
def test_gemm_equals_pytorch(tiles: Tiles, rows: int) -> None:
    x, weight, bias, residual = normal(1, rows, K), normal(2, N, K), normal(3, N), normal(4, rows, N)
    torch.testing.assert_close(gemm(x, weight, tiles=tiles), F.linear(x, weight), rtol=1e-4, atol=1e-4)
    out = gemm(x, weight, bias=bias, residual=residual, tiles=tiles)
    torch.testing.assert_close(out, residual + F.linear(x, weight, bias), rtol=1e-4, atol=1e-4)


@per_way
def test_gemm_supports_strided_rows(tiles: Tiles) -> None:
    weight, kwargs, residuals = normal(2, N, K), normal(1, 5, 3, K), normal(4, 5, 2, N)
    kept = torch.full((5, 2, N), -7.0)
    out = gemm(kwargs[:, 1], weight, residual=residuals[:, 0], out=kept[:, 1], tiles=tiles)
    assert out.data_ptr() == kept[:, 1].data_ptr()
    expected = residuals[:, 0] + F.linear(kwargs[:, 1], weight)
    torch.testing.assert_close(kept[:, 1], expected, rtol=1e-4, atol=1e-4)
    assert (kept[:, 0] == -7).all()


@pytest.mark.parametrize("rows", [1, 5, 70])
@pytest.mark.parametrize("tiles", [way for way in WAYS if way.parts == 4], ids=str)
def test_partial_sums_are_added_in_order_for_every_split(tiles: Tiles, rows: int) -> None:
    """The values yield the expected sum only if they are added in order.

    Pairwise addition would yield 0.
    """
    each = K // 4
    weight = torch.ones(N, K)
    for values, expected in (((1e8, -1e8, 1.0, 1.0), 2), ((1.0, 1e8, -1e8, 1.0), 1)):
        x = torch.zeros(rows, K)
        for part, value in enumerate(values):
            x[:, part * each] = value
        assert (gemm(x, weight, tiles=tiles) == expected).all()


@pytest.mark.parametrize("tiles", [way for way in WAYS if not way.split_k], ids=str)
def test_gate_and_up_gemm_equals_pytorch(tiles: Tiles) -> None:
    x, weight = normal(1, 5, K), normal(2, 2 * N, K)
    gate, up = F.linear(x, weight).chunk(2, dim=-1)
    torch.testing.assert_close(swiglu(x, weight, tiles=tiles), F.silu(gate) * up, rtol=1e-4, atol=1e-4)


@per_way
@pytest.mark.parametrize("rows", [1, 70])
def test_int8_gemm_equals_the_pytorch_reference(tiles: Tiles, rows: int) -> None:
    x, bias, residual = normal(1, rows, K), normal(3, N), normal(4, rows, N)
    weight = Int8.of(normal(2, N, K) * torch.rand(N, 1, generator=torch.Generator().manual_seed(5)))
    kwargs = {"scale": weight.scales, "bias": bias, "residual": residual}
    expected = residual + DequantizedInt8(weight)(x) + bias
    torch.testing.assert_close(gemm(x, weight.values, **kwargs, tiles=tiles), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "tiles", [way for way in WAYS if not way.split_k and (way.BN == 16 or way.BK * way.parts < K)], ids=str
)
def test_int8_gate_and_up_gemm_equals_the_pytorch_reference(tiles: Tiles) -> None:
    x, weight = normal(1, 5, K), Int8.of(normal(2, 2 * N, K))
    gate, up = DequantizedInt8(weight)(x).chunk(2, dim=-1)
    made = swiglu(x, weight.values, scale=weight.scales, tiles=tiles)
    torch.testing.assert_close(made, F.silu(gate) * up, rtol=1e-4, atol=1e-4)


def test_gemm_of_a_shape_without_tiles_equals_pytorch() -> None:
    x, weight, bias = normal(1, 3, 40), normal(2, 50, 40), normal(3, 50)
    torch.testing.assert_close(gemm(x, weight, bias=bias), F.linear(x, weight, bias), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("capability", [(8, 0), (8, 6), (9, 0), (12, 0)])
def test_pipeline_stages_fit_into_shared_memory(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]) -> None:
    """A GPU that keeps the current stage in registers can use one more stage.

    This additional stage need not fit into shared memory.
    """
    room = {(8, 0): 163, (8, 6): 99, (9, 0): 227, (12, 0): 99}[capability] * 1024
    monkeypatch.setattr(kernels, "shared_memory", lambda: room)
    monkeypatch.setattr(kernels, "keeps_all_stages", lambda: capability[0] == 9)
    few = [
        (gated, BM, tiles)
        for (*_, gated), kinds in TILES.items()
        for BM, tiles in zip((16, 32, 64), kinds, strict=True)
    ]
    many = [(gated, tiles.BM or 64, tiles) for (*_, gated), kinds in LARGE.items() for tiles in kinds]
    for gated, BM, tiles in (*few, *many):
        each = (BM + tiles.BN * (1 + gated)) * tiles.BK * 2
        fitting = kernels.count_stages(tiles.stages, each)
        assert (fitting - (capability[0] != 9)) * each <= room
        assert fitting == tiles.stages or fitting * each > room - each, "fewer than there is room for"
        assert fitting == tiles.stages or capability != (9, 0), "the measured ones fit where they were measured"


def test_int8_gemm_on_hopper_uses_wgmma_for_every_row_count() -> None:
    """The older instruction adds the products along K in another order.

    With that instruction, results would depend on the batch.
    """
    kernels_made = compiled("gemm")
    assert len(kernels_made) > 8
    for kernel in kernels_made:
        assert kernel["wgmma"], kernel
        assert not kernel["mma"], kernel
