"""Tests for the attention kernels, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from runtime.device.fused import FP8
from runtime.device.kernels.decode_attention import PART, PARTS, decode_attention
from runtime.device.kernels.prefill_attention import BLOCK, TILE, prefill_attention
from tests.support.kernel_references import DEVICE, TOLERANCE, Heads, attend_reference, interpreted

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bounds_of_loops")]

HAS_GPU = DEVICE == "cuda"
BLOCK_OF_ROWS = PARTS * PART
# Number of positions of a slot. The interpreter is too slow for long slots.
LENGTHS = (BLOCK_OF_ROWS + 40, *((16, 700) if HAS_GPU else ()))

# Shapes by name: number of heads, number of key heads, and size of a head.
SHAPES = {"published": (16, 8, 128), "alone": (2, 2, 16), "three": (6, 2, 32), "four": (4, 1, 64), "odd": (4, 2, 20)}
per_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
per_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
# Dtypes of the activations and of the KV cache. On a GPU, a cache in fp8 is only used with bfloat16.
CACHES = [*((dtype, None) for dtype in TOLERANCE), ([*TOLERANCE][-1], FP8)]
per_cache = pytest.mark.parametrize(("dtype", "cache"), CACHES, ids=str)

KEY_TOLERANCE = {**TOLERANCE, FP8: {"rtol": 2.0**-3, "atol": 2.0**-9}}  # Two keys in fp8 differ by one rounding.


def heads_of(
    seed: int,
    count: int,
    shape: tuple[int, int, int],
    slots: int,
    length: int,
    dtype: torch.dtype = torch.float32,
    cache: torch.dtype | None = None,
) -> Heads:
    generator, (heads, kv_heads, d) = torch.Generator().manual_seed(seed), shape
    sizes = {"slots": slots, "heads": heads, "kv_heads": kv_heads, "d": d, "length": length}
    return Heads.random(generator, count, **sizes, dtype=dtype).with_cache(cache or dtype)


def ints(*numbers: int) -> Tensor:
    return torch.tensor(numbers, device=DEVICE)


def agree(ours: Heads, reference: Heads) -> None:
    """Check that two KV caches agree: values exactly, keys within their dtype's tolerance."""
    tolerance = KEY_TOLERANCE[ours.keys.dtype]
    torch.testing.assert_close(ours.keys.float(), reference.keys.float(), equal_nan=True, **tolerance)
    torch.testing.assert_close(ours.values.float(), reference.values.float(), equal_nan=True, rtol=0, atol=0)


@per_cache
@per_shape
@pytest.mark.parametrize("new", [1, 2])
@pytest.mark.parametrize("length", LENGTHS)
def test_decode_attention_equals_the_pytorch_reference_within_the_row_length(
    length: int, new: int, shape: tuple[int, int, int], dtype: torch.dtype, cache: torch.dtype | None
) -> None:
    slots = [4, 0, 2, 5]
    positions = [0, length // 3, min(BLOCK_OF_ROWS, length // 2), length - new]
    ours = heads_of(new, len(slots) * new, shape, slots=6, length=length, dtype=dtype, cache=cache)
    for slot, position in zip(slots, positions, strict=True):
        ours.poison(slot, position)
    reference = ours.copy()
    out = decode_attention(*ours.arguments(), ints(*slots), ints(*positions), new)
    each_slot = [slot for slot in slots for _ in range(new)]
    each_position = [position + index for position in positions for index in range(new)]
    # In fp8, another rounding of a key would change the result, so the reference attends to the kernel's keys.
    expected = attend_reference(reference, each_slot, each_position, ours.cache)
    torch.testing.assert_close(out, expected, **TOLERANCE[dtype])
    agree(ours, reference)


@pytest.mark.skipif(not HAS_GPU, reason="too slow in the interpreter")
@per_dtype
def test_decode_attention_works_for_every_length_up_to_the_maximum(dtype: torch.dtype) -> None:
    positions = [10, 127, 128, 129, 1000, 2047, 4000, 4095]
    ours = heads_of(1, 8, SHAPES["published"], slots=8, length=4097, dtype=dtype)
    for slot, position in enumerate(positions):
        ours.poison(slot, position)
    reference = ours.copy()
    out = decode_attention(*ours.arguments(), ints(*range(8)), ints(*positions))
    torch.testing.assert_close(out, attend_reference(reference, list(range(8)), positions), **TOLERANCE[dtype])
    agree(ours, reference)


@pytest.mark.skipif(not HAS_GPU, reason="the interpreter rounds large numbers differently")
def test_fp8_cache_stores_the_largest_number_instead_of_a_larger_value() -> None:
    ours = heads_of(4, 1, SHAPES["three"], slots=1, length=16, dtype=torch.bfloat16, cache=FP8)
    ours.qkv[:, -SHAPES["three"][2] :] = 1000
    out = decode_attention(*ours.arguments(), ints(0), ints(0))
    assert ours.values[0, -1, 0].float().unique().tolist() == [torch.finfo(FP8).max]
    assert out.isfinite().all()


@interpreted
def test_code_predictor_attention_works_step_by_step_with_16_cached_positions() -> None:
    """The code predictor first writes two positions, and then one position per step."""
    ours = heads_of(3, 2 * 3, SHAPES["three"], slots=3, length=16)
    for slot in range(3):
        ours.poison(slot, 0)
    reference = ours.copy()
    rows = ints(2, 0, 1)
    out = decode_attention(*ours.arguments(), rows, torch.zeros_like(rows), 2)
    expected = attend_reference(reference, [2, 2, 0, 0, 1, 1], [0, 1] * 3)
    torch.testing.assert_close(out, expected, **TOLERANCE[torch.float32])
    for position in range(2, 16):
        step = heads_of(position, 3, SHAPES["three"], slots=3, length=16)
        args = (step.qkv, *ours.arguments()[1:], rows, torch.full_like(rows, position))
        expected = attend_reference(Heads(step.qkv, *reference.arguments()[1:]), [2, 0, 1], [position] * 3)
        torch.testing.assert_close(decode_attention(*args), expected, **TOLERANCE[torch.float32])
    agree(ours, reference)


@per_dtype
@pytest.mark.parametrize(("length", "new"), [(16, 2), (16, 1), (700, 1)])
def test_decode_attention_is_batch_invariant(length: int, new: int, dtype: torch.dtype) -> None:
    slots = 64 if HAS_GPU else 4
    ours = heads_of(2, slots * new, SHAPES["published" if HAS_GPU else "three"], slots, length, dtype)
    order = torch.randperm(slots, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    positions = torch.randint(0, length - new, (slots,), generator=torch.Generator().manual_seed(1)).to(DEVICE)
    together = decode_attention(*ours.copy().arguments(), order, positions, new).view(slots, new, -1)
    for count in (1, 2, 3, 7, 16, 33, 64) if HAS_GPU else (1, 3):
        start = slots - count
        some = (ours.qkv[start * new :], *ours.copy().arguments()[1:], order[start:].clone(), positions[start:].clone())
        assert torch.equal(decode_attention(*some, new).view(count, new, -1), together[start:]), count


@interpreted
def test_out_of_range_position_writes_only_to_its_own_slot() -> None:
    ours = heads_of(8, 2, SHAPES["alone"], slots=3, length=16)
    before = ours.copy()
    decode_attention(*ours.arguments(), ints(1, 1), ints(2**40, 16))
    assert torch.equal(ours.keys[[0, 2]], before.keys[[0, 2]])
    assert torch.equal(ours.keys[1, :, :15], before.keys[1, :, :15])


@interpreted
@pytest.mark.filterwarnings("ignore:All-NaN slice encountered")
def test_non_finite_row_does_not_affect_other_rows() -> None:
    ours = heads_of(9, 3, SHAPES["three"], slots=3, length=64)
    rows, positions = ints(0, 1, 2), ints(20, 30, 40)
    healthy = decode_attention(*ours.copy().arguments(), rows, positions)
    ours.qkv[1] = torch.nan
    faulty = decode_attention(*ours.copy().arguments(), rows, positions)
    assert faulty[1].isnan().all()
    assert torch.equal(faulty[[0, 2]], healthy[[0, 2]])


@per_cache
@per_shape
@pytest.mark.parametrize(
    ("start", "count"),
    [(0, TILE), (0, 50), (3, 7), (BLOCK + 9, 2 * TILE), *([(130, 512)] if HAS_GPU else [])],
)
def test_prefill_attention_equals_the_pytorch_reference(
    shape: tuple[int, int, int], start: int, count: int, dtype: torch.dtype, cache: torch.dtype | None
) -> None:
    ours = heads_of(start, count, shape, slots=3, length=700 if HAS_GPU else 200, dtype=dtype, cache=cache)
    ours.poison(1, start)
    reference = ours.copy()
    out = prefill_attention(*ours.arguments(), ints(1), ints(start))
    expected = attend_reference(reference, [1] * count, list(range(start, start + count)), ours.cache)
    torch.testing.assert_close(out, expected, **TOLERANCE[dtype])
    agree(ours, reference)


@per_dtype
@pytest.mark.filterwarnings("ignore:All-NaN slice encountered")
def test_prefill_padding_writes_to_the_unread_scratch_position(dtype: torch.dtype) -> None:
    """Only 10 of 24 positions fit into the slot.

    The other positions must change neither the results nor any position that is read.
    """
    length, start, count = 40, 29, 24
    ours = heads_of(11, count, SHAPES["three"], slots=2, length=length, dtype=dtype)
    ours.poison(1, start)
    real = length - 1 - start
    reference = ours.copy()
    ours.qkv[real + 1 :] = torch.nan
    out = prefill_attention(*ours.arguments(), ints(1), ints(start))
    short = Heads(reference.qkv[:real], *reference.arguments()[1:])
    expected = attend_reference(short, [1] * real, list(range(start, start + real)))
    torch.testing.assert_close(out[:real], expected, **TOLERANCE[dtype])
    torch.testing.assert_close(ours.keys[:, :, :-1], short.keys[:, :, :-1], **TOLERANCE[dtype])
    assert torch.equal(ours.keys[0], short.keys[0])
    follow = decode_attention(ours.qkv[:1], *ours.arguments()[1:], ints(1), ints(length - 2))
    assert follow.isfinite().all()


@interpreted
def test_chunked_prefill_equals_prefill_of_the_whole_prompt() -> None:
    whole = heads_of(12, 70, SHAPES["published"], slots=2, length=128)
    parts = whole.copy()
    at_once = prefill_attention(*whole.arguments(), ints(0), ints(0))
    cut = [
        prefill_attention(parts.qkv[start:stop], *parts.arguments()[1:], ints(0), ints(start))
        for start, stop in ((0, 32), (32, 33), (33, 70))
    ]
    torch.testing.assert_close(torch.cat(cut), at_once, **TOLERANCE[torch.float32])
    assert torch.equal(whole.keys, parts.keys)


@pytest.mark.skipif(not HAS_GPU, reason="too slow in the interpreter")
def test_prefill_pieces_in_one_launch_equal_the_unsplit_chunk() -> None:
    """Three prefill chunks are split into interleaved pieces of 16 tokens.

    All results must be bitwise equal to those of unsplit chunks.
    """
    counts, starts, slots, piece = (70, 128, 16), (0, 40, 300), (2, 0, 1), 16
    whole = heads_of(21, sum(counts), SHAPES["published"], slots=4, length=700, dtype=torch.bfloat16)
    apart = whole.copy()
    ends = torch.tensor(counts).cumsum(0).tolist()
    alone, order = [], []
    for slot, start, count, end in zip(slots, starts, counts, ends, strict=True):
        rows = whole.qkv[end - count : end].clone()
        alone.append(prefill_attention(rows, *whole.arguments()[1:], ints(slot), ints(start)))
        order += [(slot, start + at, end - count + at, min(piece, count - at)) for at in range(0, count, piece)]
    order = order[1::2] + order[::2]
    padded = torch.zeros(len(order), piece, apart.qkv.shape[1], device=DEVICE, dtype=torch.bfloat16)
    for place, (_, _, row, length) in enumerate(order):
        padded[place, :length] = apart.qkv[row : row + length]
    kwargs = [ints(*(slot for slot, *_ in order)), ints(*(start for _, start, *_ in order))]
    out = prefill_attention(padded.flatten(0, 1), *apart.arguments()[1:], *kwargs).view(len(order), piece, -1)
    for place, (_, _, row, length) in enumerate(order):
        assert torch.equal(out[place, :length], torch.cat(alone)[row : row + length]), place
    for slot, start, count in zip(slots, starts, counts, strict=True):
        read = slice(start, start + count)
        assert torch.equal(apart.keys[slot, :, read], whole.keys[slot, :, read])
        assert torch.equal(apart.values[slot, :, read], whole.values[slot, :, read])
