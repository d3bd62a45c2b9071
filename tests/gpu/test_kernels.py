"""Tests for the Triton kernels on a GPU, compared with their PyTorch twins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from runtime.device.fused import Lookup, Norm, Rules, Sampled
from runtime.device.kernels import medium_m_gemm, small_m_gemm
from runtime.device.kernels.decode_attention import decode_attention
from runtime.device.kernels.frame_io import begin, finish
from runtime.device.kernels.gemm import MAX_ROWS, TILES, Tiles, gemm, norm, swiglu
from runtime.device.kernels.prefill_attention import prefill_attention
from runtime.device.kernels.sample import sample
from runtime.device.quantized import DequantizedInt8, Int8
from tests.support.kernel_twins import (
    Heads,
    Slots,
    attend_twin,
    begin_twin,
    copy_of,
    draw_twin,
    finish_twin,
    random_state,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here"),
]

# A key may be rounded to its neighbour, and probabilities are rounded before they are normalised: a few parts in 256.
TOLERANCE = {torch.float32: {"rtol": 1e-4, "atol": 1e-4}, torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2}}
BATCHES = (1, 2, 3, 7, 16, 33, 64)
GROUPS, CODES, EOS = 16, 2048, 2150

is_rounded = pytest.mark.parametrize("rounded", [False, True], ids=["bfloat16", "int8"])
per_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
# Columns: heads, kv_heads, d.
per_shape = pytest.mark.parametrize("shape", [(16, 8, 128), (6, 2, 32), (4, 1, 64), (4, 2, 20), (2, 2, 16)])


@pytest.fixture(autouse=True)
def exact_products() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False


def heads_of(seed: int, count: int, shape: tuple[int, int, int], slots: int, length: int, dtype: torch.dtype) -> Heads:
    heads, kv_heads, d = shape
    return Heads.random(
        torch.Generator().manual_seed(seed),
        count,
        slots=slots,
        heads=heads,
        kv_heads=kv_heads,
        d=d,
        length=length,
        dtype=dtype,
        device="cuda",
    )


def ints(*numbers: int) -> Tensor:
    return torch.tensor(numbers, device="cuda")


def agree(ours: Heads, twins: Heads, dtype: torch.dtype) -> None:
    """Check that both KV caches contain the same keys and values."""
    torch.testing.assert_close(ours.keys, twins.keys, equal_nan=True, **TOLERANCE[dtype])
    torch.testing.assert_close(ours.values, twins.values, equal_nan=True, rtol=0, atol=0)


@per_dtype
@per_shape
@pytest.mark.parametrize("new", [1, 2])
@pytest.mark.parametrize("length", [16, 700])
def test_decode_attention_equals_its_pytorch_twin(
    shape: tuple[int, int, int], new: int, length: int, dtype: torch.dtype
) -> None:
    slots, positions = [4, 0, 2, 5, 7, 1], [0, 1, 5, length // 3, length // 2, length - new]
    ours = heads_of(new, len(slots) * new, shape, slots=8, length=length, dtype=dtype)
    for slot, position in zip(slots, positions, strict=True):
        ours.poison(slot, position)
    twins = ours.copy()
    out = decode_attention(*ours.given(), ints(*slots), ints(*positions), new)
    each_slot = [slot for slot in slots for _ in range(new)]
    each_position = [position + index for position in positions for index in range(new)]
    torch.testing.assert_close(out, attend_twin(twins, each_slot, each_position), **TOLERANCE[dtype])
    agree(ours, twins, dtype)


@per_dtype
def test_decode_attention_works_for_every_length_up_to_the_maximum(dtype: torch.dtype) -> None:
    positions = [10, 127, 128, 129, 1000, 2047, 4000, 4095]
    ours = heads_of(1, 8, (16, 8, 128), slots=8, length=4097, dtype=dtype)
    for slot, position in enumerate(positions):
        ours.poison(slot, position)
    twins = ours.copy()
    out = decode_attention(*ours.given(), torch.arange(8, device="cuda"), ints(*positions))
    torch.testing.assert_close(out, attend_twin(twins, list(range(8)), positions), **TOLERANCE[dtype])
    agree(ours, twins, dtype)


@per_dtype
@pytest.mark.parametrize(("length", "new"), [(16, 2), (16, 1), (700, 1)])
def test_attention_is_batch_invariant(length: int, new: int, dtype: torch.dtype) -> None:
    ours = heads_of(2, 64 * new, (16, 8, 128), slots=64, length=length, dtype=dtype)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0)).cuda()
    positions = torch.randint(0, length - new, (64,), generator=torch.Generator().manual_seed(1)).cuda()
    together = decode_attention(*ours.copy().given(), order, positions, new).view(64, new, -1)
    for count in BATCHES:
        start = 64 - count
        some = (ours.qkv[start * new :], *ours.copy().given()[1:], order[start:].clone(), positions[start:].clone())
        assert torch.equal(decode_attention(*some, new).view(count, new, -1), together[start:]), count


@per_dtype
@per_shape
@pytest.mark.parametrize(("start", "count"), [(0, 16), (0, 50), (73, 64), (130, 512)])
def test_prefill_attention_equals_its_pytorch_twin(
    shape: tuple[int, int, int], start: int, count: int, dtype: torch.dtype
) -> None:
    ours = heads_of(start, count, shape, slots=3, length=700, dtype=dtype)
    ours.poison(1, start)
    twins = ours.copy()
    out = prefill_attention(*ours.given(), ints(1), ints(start))
    expected = attend_twin(twins, [1] * count, list(range(start, start + count)))
    torch.testing.assert_close(out, expected, **TOLERANCE[dtype])
    agree(ours, twins, dtype)


def test_prefill_padding_writes_to_the_scratch_position() -> None:
    ours = heads_of(11, 64, (16, 8, 128), slots=2, length=100, dtype=torch.bfloat16)
    ours.poison(1, 60)
    twins = ours.copy()
    ours.qkv[40:] = torch.nan
    out = prefill_attention(*ours.given(), ints(1), ints(60))
    short = Heads(twins.qkv[:39], *twins.given()[1:])
    expected = attend_twin(short, [1] * 39, list(range(60, 99)))
    torch.testing.assert_close(out[:39], expected, **TOLERANCE[torch.bfloat16])
    torch.testing.assert_close(ours.keys[:, :, :-1], short.keys[:, :, :-1], **TOLERANCE[torch.bfloat16])


def drawn(
    logits: Tensor, rows: Tensor, slots: Slots, codebook: int, rules: Rules | None, *, settled: bool = False
) -> tuple[Tensor, Tensor]:
    codes = torch.full((len(rows), GROUPS), -7, device="cuda")
    finite = torch.zeros(len(rows), GROUPS, dtype=torch.bool, device="cuda")
    table = torch.arange(logits.shape[1], device="cuda", dtype=torch.float32)[:, None].repeat(1, 40)
    embedded = torch.full((len(rows), 2, 40), -7.0, device="cuda")
    lookup = Lookup(table, embedded[:, 1])
    sample(logits, rows, slots.state, codebook, Sampled(codes, finite), rules, lookup, settled=settled)
    result = codes[:, codebook]
    assert torch.equal(embedded[:, 1], table[result])
    assert (embedded[:, 0] == -7).all()
    assert (torch.cat((codes[:, :codebook], codes[:, codebook + 1 :]), dim=1) == -7).all()
    return result, finite[:, codebook]


@per_dtype
@pytest.mark.parametrize("width", [2048, 3072])
@pytest.mark.parametrize("seed", range(10))
def test_sampled_codes_equal_the_pytorch_twin(seed: int, width: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(seed)
    slots = Slots.random(generator, 65, width, "cuda")
    rows = torch.randperm(65, generator=generator)[:64].cuda()
    logits = (torch.randn(64, width, generator=generator) * [0.01, 1.0, 8.0][seed % 3]).cuda().to(dtype)
    rules = slots.rules(2, EOS, CODES) if width > CODES else None
    codebook = 0 if rules else 1 + seed
    for settled in (False, True):
        codes, finite = drawn(logits, rows, slots, codebook, rules, settled=settled)
        assert codes.tolist() == draw_twin(logits, rows, slots, codebook, rules).tolist()
        assert finite.all()


def test_sampling_is_batch_invariant() -> None:
    generator = torch.Generator().manual_seed(3)
    slots = Slots.random(generator, 64, 2048, "cuda")
    logits = (3 * torch.randn(64, 2048, generator=generator)).cuda().to(torch.bfloat16)
    rows = torch.randperm(64, generator=generator).cuda()
    together, _ = drawn(logits, rows, slots, 5, None)
    for count in BATCHES:
        some, _ = drawn(logits[-count:], rows[-count:].clone(), slots, 5, None)
        assert torch.equal(some, together[-count:]), count


def test_non_finite_logits_are_reported_and_do_not_affect_other_rows() -> None:
    generator = torch.Generator().manual_seed(5)
    slots = Slots.random(generator, 6, 3072, "cuda")
    slots = replace(slots, top_p=torch.full_like(slots.top_p, 0.7), greedy=torch.zeros_like(slots.greedy))
    rules = slots.rules(2, EOS, CODES)
    logits = torch.randn(6, 3072, generator=generator).cuda()
    rows = torch.arange(6, device="cuda")
    healthy, _ = drawn(logits, rows, slots, 0, rules)
    logits[1], logits[2, 7], logits[3, 8], logits[4, 9] = torch.nan, torch.nan, torch.inf, -torch.inf
    codes, finite = drawn(logits, rows, slots, 0, rules)
    assert finite.tolist() == [True, False, False, False, False, True]
    assert ((codes >= 0) & (codes < 3072)).all()
    assert codes[[0, 5]].tolist() == healthy[[0, 5]].tolist()


@per_dtype
def test_frame_input_is_the_sum_of_code_and_text_embeddings(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    frames = torch.randn(GROUPS, 300, 2048, generator=generator).cuda().to(dtype)
    text = torch.randn(1000, 2048, generator=generator).cuda().to(dtype)
    state = random_state(generator, 64, GROUPS, 300, 1000, "cuda")
    rows = torch.randperm(65, generator=generator)[:64].cuda()
    x, positions = begin(rows, state, frames, text)
    expected, places = begin_twin(rows, state, frames, text)
    torch.testing.assert_close(x, expected, rtol=1e-2, atol=1e-5)
    assert torch.equal(positions, places)
    assert torch.equal(begin(rows[9:10].clone(), state, frames, text)[0], x[9:10])


def product_of(N: int, K: int, *, gated: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return a weight, an input with the maximum number of rows, and a residual."""
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


def test_prefill_pieces_in_one_launch_equal_the_whole_chunk() -> None:
    """Three prefill chunks are split into interleaved pieces of 16 tokens.

    All results must be bitwise equal to those of unsplit chunks.
    """
    counts, starts, slots, piece = (70, 128, 16), (0, 40, 300), (2, 0, 1), 16
    whole = heads_of(21, sum(counts), (16, 8, 128), slots=4, length=700, dtype=torch.bfloat16)
    apart = whole.copy()
    ends = torch.tensor(counts).cumsum(0).tolist()
    alone, order = [], []
    for slot, start, count, end in zip(slots, starts, counts, ends, strict=True):
        rows = whole.qkv[end - count : end].clone()
        alone.append(prefill_attention(rows, *whole.given()[1:], ints(slot), ints(start)))
        order += [(slot, start + at, end - count + at, min(piece, count - at)) for at in range(0, count, piece)]
    order = order[1::2] + order[::2]
    padded = torch.zeros(len(order), piece, apart.qkv.shape[1], device="cuda", dtype=torch.bfloat16)
    for place, (_, _, row, length) in enumerate(order):
        padded[place, :length] = apart.qkv[row : row + length]
    given = [ints(*(slot for slot, *_ in order)), ints(*(start for _, start, *_ in order))]
    out = prefill_attention(padded.flatten(0, 1), *apart.given()[1:], *given).view(len(order), piece, -1)
    for place, (_, _, row, length) in enumerate(order):
        assert torch.equal(out[place, :length], torch.cat(alone)[row : row + length]), place
    for slot, start, count in zip(slots, starts, counts, strict=True):
        read = slice(start, start + count)
        assert torch.equal(apart.keys[slot, :, read], whole.keys[slot, :, read])
        assert torch.equal(apart.values[slot, :, read], whole.values[slot, :, read])


@is_rounded
@pytest.mark.parametrize("shape", small_m_gemm.TILES, ids=str)
def test_prefetching_weights_does_not_change_any_bit(shape: tuple[int, int, bool], rounded: bool) -> None:
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
def test_rows_loaded_step_by_step_do_not_change_any_bit(shape: tuple[int, int, bool]) -> None:
    """The inputs have up to 64 rows in bfloat16 and float16, contiguous or strided."""
    N, K, gated = shape
    found = 0
    for dtype in (torch.bfloat16, torch.float16):
        weight, x, residual = (numbers.to(dtype) for numbers in product_of(N, K, gated=gated))

        def of(rows: Tensor, beside: Tensor | None, weight: Tensor = weight) -> Tensor:
            return swiglu(rows, weight) if gated else gemm(rows, weight, residual=beside)

        for count in (2, 9, 16, 17, 32, 33, 64):
            rows, beside = x[:count], None if gated else residual[:count]
            if (tiles := medium_m_gemm.choose_tiles(rows, weight, gated=gated)) is None:
                continue
            found += 1
            expected = of(rows, beside)
            given = {"residual": beside, "gated": gated}
            assert torch.equal(medium_m_gemm.medium_m_gemm(rows, weight, tiles, **given), expected), count
            apart = torch.zeros(count, 2, N, device="cuda", dtype=dtype)
            wide = torch.zeros(count, 2, K, device="cuda", dtype=dtype)
            wide[:, 1] = rows
            medium_m_gemm.medium_m_gemm(wide[:, 1], weight, tiles, out=apart[:, 1], **given)
            assert torch.equal(apart[:, 1], expected), count
            assert not apart[:, 0].any()
            if not gated:
                assert torch.equal(medium_m_gemm.medium_m_gemm(rows, weight, tiles), of(rows, None)), count
            one = medium_m_gemm.medium_m_gemm(
                x[:1], weight, tiles, residual=residual[:1] if beside is not None else None, gated=gated
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
        given = {"residual": residual[:count], "scale": scale}
        whole = gemm(x[:count], weight, **given, tiles=Tiles(16, 256, 4, 4, 4))
        for prefetch in (False, True):
            split = gemm(x[:count], weight, **given, tiles=Tiles(32, 256, 4, 4, 2, prefetch, split_k=True))
            assert torch.equal(split, whole), count


def test_weight_quantization_on_the_gpu_equals_the_cpu() -> None:
    weight, x, _ = product_of(2048, 6144, gated=False)
    here, there = Int8.of(weight), Int8.of(weight.cpu())
    assert torch.equal(here.values.cpu(), there.values)
    assert torch.equal(here.scales.cpu(), there.scales)
    twin = DequantizedInt8(here)(x)
    torch.testing.assert_close(gemm(x, here.values, scale=here.scales), twin, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("counted", [False, True])
def test_row_state_advances_and_reports_its_frame(counted: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    state = random_state(generator, 64, GROUPS, 300, 1000, "cuda")
    rows = torch.randperm(65, generator=generator)[:64].cuda()
    codes = torch.randint(0, 303, (64, GROUPS), generator=generator).cuda()
    finite = torch.rand(64, GROUPS, generator=generator).cuda() < 0.95
    positions, counts = state.position[rows], codes[:, 1].clone()
    expected = copy_of(state)
    output = finish(rows, state, Sampled(codes, finite), 301, positions, counts if counted else None)
    stops = positions + (counts if counted else 1)
    assert torch.equal(output, finish_twin(rows, expected, codes, finite, 301, stops))
    assert all(torch.equal(now, then) for now, then in zip(state, expected, strict=True))


def test_graph_of_chained_kernels_replays_correctly() -> None:
    """With PDL, each kernel of the frame may start before the previous kernel has ended.

    It must wait before it reads its inputs.
    """
    B, width, turns = 8, 1024, 40
    generator = torch.Generator().manual_seed(8)
    heads = heads_of(8, B, (8, 4, 128), slots=B + 1, length=600, dtype=torch.bfloat16)
    state = random_state(generator, B, GROUPS, width, 1000, "cuda")
    slots = replace(Slots.random(generator, B + 1, width, "cuda"), frame=state.frame)
    rows = torch.arange(B, device="cuda").flip(0)
    tables = torch.randn(GROUPS, width, 2 * width, generator=generator).cuda().to(torch.bfloat16)
    text = torch.randn(1000, 2 * width, generator=generator).cuda().to(torch.bfloat16)

    def frame() -> Tensor:
        codes = torch.empty(B, GROUPS, dtype=torch.int64, device="cuda")
        sampled = Sampled(codes, torch.empty_like(codes, dtype=torch.bool))
        x, positions = begin(rows, state, tables, text)
        for codebook in range(GROUPS):
            settled = codebook > 0
            scores = decode_attention(x, *heads.given()[1:], rows, positions, settled=settled)
            x = torch.empty_like(x)
            sample(scores, rows, slots.state, codebook, sampled, None, Lookup(tables[codebook], x), settled=settled)
        return finish(rows, state, sampled, 5, positions)

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
