"""Tests for the matrix products on a GPU, and for a graph of chained kernels.

tests/unit/device/test_kernels_*.py compare the kernels with PyTorch, on a GPU and without one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from runtime.device.fused import EmbeddingLookup, Norm, SampleOutput
from runtime.device.kernels import medium_m_gemm, small_m_gemm
from runtime.device.kernels.decode_attention import decode_attention
from runtime.device.kernels.frame_io import begin_frame, finish_frame
from runtime.device.kernels.gemm import MAX_ROWS, TILES, Tiles, gemm, norm, swiglu
from runtime.device.kernels.sample import sample
from runtime.device.quantized import DequantizedInt8, Int8
from tests.support.cuda import needs_gpu
from tests.support.kernel_references import Heads, Slots, random_state

pytestmark = needs_gpu

GROUPS = 16

is_rounded = pytest.mark.parametrize("rounded", [False, True], ids=["bfloat16", "int8"])


@pytest.fixture(autouse=True)
def exact_products() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False


def product_of(N: int, K: int, *, gated: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return a random weight, an input with the maximum number of rows, and a residual."""
    generator = torch.Generator("cuda").manual_seed(N + K)
    shapes = ((2 * N if gated else N, K), (MAX_ROWS, K), (MAX_ROWS, N))
    weight, x, residual = (torch.randn(shape, generator=generator, device="cuda").bfloat16() for shape in shapes)
    return weight * K**-0.5, x, residual


def weights_of(weight: Tensor, *, rounded: bool) -> tuple[Tensor, Tensor | None, Tensor]:
    """Return weights (int8 if `rounded`), scales or None, and the equivalent float32 weights."""
    if not rounded:
        return weight, None, weight.float()
    int8 = Int8.of(weight)
    return int8.values, int8.scales, int8.weight()


@is_rounded
@pytest.mark.parametrize("shape", TILES, ids=str)
def test_gemm_is_batch_invariant(shape: tuple[int, int, bool], rounded: bool) -> None:
    *_, gated = shape
    published, x, residual = product_of(*shape[:2], gated=gated)
    weight, scale, truth = weights_of(published, rounded=rounded)

    def of(x: Tensor, residual: Tensor) -> Tensor:
        return swiglu(x, weight, scale=scale) if gated else gemm(x, weight, scale=scale, residual=residual)

    def rows(count: int) -> Tensor:
        return of(x[:count], residual[:count])

    together = rows(64)
    expected = x[:64].float() @ truth.t()
    if gated:
        gate, up = expected.bfloat16().float().chunk(2, dim=-1)
        expected = torch.nn.functional.silu(gate) * up
    else:
        expected += residual[:64].float()
    torch.testing.assert_close(together.float(), expected, rtol=2e-2, atol=2e-2)
    for count in (1, 7, 16, 17, 32, 33, 128, 192, 256, 384, MAX_ROWS):
        assert torch.equal(rows(count)[:64], together[:count]), count
    assert torch.equal(rows(MAX_ROWS)[-64:], of(x[-64:], residual[-64:]))


@is_rounded
@pytest.mark.parametrize("shape", small_m_gemm.TILES, ids=str)
def test_prefetching_weights_changes_no_bit_of_the_product(shape: tuple[int, int, bool], rounded: bool) -> None:
    """The inputs have up to 8 rows, with and without a fused norm, contiguous or strided."""
    N, K, gated = shape
    published, x, residual = product_of(N, K, gated=gated)
    weight, scale, _ = weights_of(published, rounded=rounded)

    def few_of(rows: Tensor, tiles: small_m_gemm.SmallTiles, **given: Any) -> Tensor:
        return small_m_gemm.small_m_gemm(rows, weight, tiles, scale=scale, gated=gated, **given)

    def of(rows: Tensor, beside: Tensor | None = None) -> Tensor:
        return swiglu(rows, weight, scale=scale) if gated else gemm(rows, weight, scale=scale, residual=beside)

    how = Norm(torch.rand(K, device="cuda", dtype=torch.bfloat16) + 0.5, 1e-6)
    found = 0
    for count in (1, 2, 7, 8):
        few, beside = x[:count], None if gated else residual[:count]
        if (tiles := small_m_gemm.choose_tiles(few, weight, gated=gated)) is None:
            continue
        found += 1
        expected = of(few, beside)
        assert torch.equal(few_of(few, tiles, residual=beside), expected)
        apart = torch.zeros(count, 2, N, device="cuda", dtype=torch.bfloat16)
        few_of(few, tiles, residual=beside, out=apart[:, 1])
        assert torch.equal(apart[:, 1], expected)
        assert not apart[:, 0].any()
        if K & (K - 1) == 0:
            normed = norm(few, how)
            assert torch.equal(few_of(few, tiles, norm=how), of(normed))
    if not found:
        pytest.skip("this card has not the shared memory, or does not launch kernels ahead")


@pytest.mark.parametrize("shape", medium_m_gemm.TILES, ids=str)
@pytest.mark.parametrize(
    ("dtype", "rounded"),
    [(torch.bfloat16, False), (torch.float16, False), (torch.bfloat16, True)],
    ids=["bfloat16", "float16", "int8"],
)
def test_loading_input_rows_step_by_step_changes_no_bit_of_the_product(
    shape: tuple[int, int, bool], dtype: torch.dtype, rounded: bool
) -> None:
    """The inputs have up to 128 rows, contiguous or strided."""
    N, K, gated = shape
    published, x, residual = (numbers.to(dtype) for numbers in product_of(N, K, gated=gated))
    weight, scale, _ = weights_of(published, rounded=rounded)

    def of(rows: Tensor, beside: Tensor | None) -> Tensor:
        return swiglu(rows, weight, scale=scale) if gated else gemm(rows, weight, scale=scale, residual=beside)

    found = 0
    for count in (2, 9, 16, 17, 32, 33, 64, 65, 128):
        rows, beside = x[:count], None if gated else residual[:count]
        if (tiles := medium_m_gemm.choose_tiles(rows, weight, gated=gated)) is None:
            continue
        found += 1
        expected = of(rows, beside)
        kwargs = {"scale": scale, "residual": beside, "gated": gated}
        assert torch.equal(medium_m_gemm.medium_m_gemm(rows, weight, tiles, **kwargs), expected), count
        apart = torch.zeros(count, 2, N, device="cuda", dtype=dtype)
        wide = torch.zeros(count, 2, K, device="cuda", dtype=dtype)
        wide[:, 1] = rows
        medium_m_gemm.medium_m_gemm(wide[:, 1], weight, tiles, out=apart[:, 1], **kwargs)
        assert torch.equal(apart[:, 1], expected), count
        assert not apart[:, 0].any()
        if not gated:
            assert torch.equal(medium_m_gemm.medium_m_gemm(rows, weight, tiles, scale=scale), of(rows, None)), count
        one = medium_m_gemm.medium_m_gemm(
            x[:1], weight, tiles, **kwargs | {"residual": None if gated else residual[:1]}
        )
        assert torch.equal(one[0], expected[0]), count
    if not found:
        pytest.skip("this card has not the shared memory, or does not launch kernels ahead")


@is_rounded
@pytest.mark.parametrize(("N", "K"), [(1024, 2048), (1024, 3072), (2048, 6144)])
def test_gemm_split_into_several_programs_gives_the_same_bits(N: int, K: int, rounded: bool) -> None:
    published, x, residual = product_of(N, K, gated=False)
    weight, scale, _ = weights_of(published, rounded=rounded)
    for count in (1, 20, 64):
        kwargs = {"residual": residual[:count], "scale": scale}
        whole = gemm(x[:count], weight, **kwargs, tiles=Tiles(16, 256, 4, 4, 4))
        for prefetch in (False, True):
            split = gemm(x[:count], weight, **kwargs, tiles=Tiles(32, 256, 4, 4, 2, prefetch, split_k=True))
            assert torch.equal(split, whole), count


def test_weight_quantization_on_the_gpu_equals_the_cpu() -> None:
    weight, x, _ = product_of(2048, 6144, gated=False)
    here, there = Int8.of(weight), Int8.of(weight.cpu())
    assert torch.equal(here.values.cpu(), there.values)
    assert torch.equal(here.scales.cpu(), there.scales)
    reference = DequantizedInt8(here)(x)
    torch.testing.assert_close(gemm(x, here.values, scale=here.scales), reference, rtol=2e-2, atol=2e-2)


def test_graph_of_chained_kernels_replays_correctly() -> None:
    """With PDL, each kernel of the frame may start before the previous kernel has ended.

    It must wait before it reads its inputs.
    """
    B, width, turns = 8, 1024, 40
    generator = torch.Generator().manual_seed(8)
    like = {"slots": B + 1, "heads": 8, "kv_heads": 4, "d": 128, "length": 600, "dtype": torch.bfloat16}
    heads = Heads.random(torch.Generator().manual_seed(8), B, **like)
    state = random_state(generator, B, GROUPS, width, 1000)
    slots = replace(Slots.random(generator, B + 1, width), frame=state.frame)
    rows = torch.arange(B, device="cuda").flip(0)
    tables = torch.randn(GROUPS, width, 2 * width, generator=generator).cuda().to(torch.bfloat16)
    text = torch.randn(1000, 2 * width, generator=generator).cuda().to(torch.bfloat16)

    def frame() -> Tensor:
        codes = torch.empty(B, GROUPS, dtype=torch.int64, device="cuda")
        sampled = SampleOutput(codes, torch.empty_like(codes, dtype=torch.bool))
        x, positions = begin_frame(rows, state, tables, text)
        for codebook in range(GROUPS):
            inputs_ready = codebook > 0
            scores = decode_attention(x, *heads.arguments()[1:], rows, positions, inputs_ready=inputs_ready)
            x = torch.empty_like(x)
            sample(
                scores,
                rows,
                slots.state,
                codebook,
                sampled,
                None,
                EmbeddingLookup(tables[codebook], x),
                inputs_ready=inputs_ready,
            )
        return finish_frame(rows, state, sampled, 5)

    moving = (heads.keys, heads.values, *state)
    kept = [tensor.clone() for tensor in moving]

    def frames(one: Callable[[], Tensor]) -> Tensor:
        for tensor, was in zip(moving, kept, strict=True):
            tensor.copy_(was)
        output = []
        for turn in range(turns):
            rows.copy_(torch.arange(B, device="cuda").roll(turn))
            output.append(one().clone())
        return torch.stack(output)

    def waiting() -> Tensor:
        output = frame()
        torch.cuda.synchronize()
        return output

    expected = frames(waiting)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = frame()

    def replayed() -> Tensor:
        graph.replay()
        return result

    assert torch.equal(frames(replayed), expected)
    assert torch.equal(frames(frame), expected)
