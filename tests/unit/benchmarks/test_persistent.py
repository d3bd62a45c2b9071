"""The layers in one launch, under the interpreter, which runs one program after the other: with one, none waits."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from benchmarks.persistent import Predictor, Sizes, Way

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter is not needed beside a card"),
    pytest.mark.usefixtures("bounds_of_loops"),
]

SIZES = Sizes(layers=2, hidden=256, heads=4, kv_heads=2, d=64, inner=512, positions=16)


@pytest.mark.parametrize("first", [0, 5])
@pytest.mark.parametrize("rows", [1, 3])
def test_one_launch_makes_what_the_chain_makes(rows: int, first: int) -> None:
    one, other = (Predictor(rows, SIZES, "cpu", torch.float32) for _ in range(2))
    expected = one.chain(torch.full((rows,), first))
    torch.testing.assert_close(other.stay(first, Way(1, wide=32)), expected, rtol=1e-4, atol=1e-4)
    for mine, theirs in zip(other.caches, one.caches, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
