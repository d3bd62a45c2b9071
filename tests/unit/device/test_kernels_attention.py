"""Tests for the attention kernels in Triton's interpreter, compared with PyTorch.

tests/gpu/test_kernels.py tests these kernels on a GPU.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from runtime.device.kernels.decode_attention import PART, PARTS, decode_attention
from runtime.device.kernels.prefill_attention import BLOCK, TILE, prefill_attention
from tests.support.kernel_twins import Heads, attend_twin

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter is not needed beside a card"),
    pytest.mark.usefixtures("bounds_of_loops"),
]

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
BLOCK_OF_ROWS = PARTS * PART

# Values of heads, kv_heads and d.
SHAPES = {"published": (16, 8, 128), "alone": (2, 2, 16), "three": (6, 2, 32), "four": (4, 1, 64), "odd": (4, 2, 20)}
per_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())


def heads_of(seed: int, count: int, shape: tuple[int, int, int], slots: int, length: int) -> Heads:
    heads, kv_heads, d = shape
    like: dict[str, Any] = {"dtype": torch.float32, "device": "cpu", "slots": slots, "length": length}
    return Heads.random(torch.Generator().manual_seed(seed), count, heads=heads, kv_heads=kv_heads, d=d, **like)


def agree(ours: Heads, twins: Heads) -> None:
    """Check that both KV caches contain the same keys and values."""
    torch.testing.assert_close(ours.keys, twins.keys, equal_nan=True, **TOLERANCE)
    torch.testing.assert_close(ours.values, twins.values, equal_nan=True, rtol=0, atol=0)


@per_shape
@pytest.mark.parametrize("new", [1, 2])
def test_decode_attention_equals_its_pytorch_twin_within_the_row_length(shape: tuple[int, int, int], new: int) -> None:
    length = BLOCK_OF_ROWS + 40
    slots, positions = [4, 0, 2, 5], [0, 17, BLOCK_OF_ROWS, length - new]
    ours = heads_of(new, len(slots) * new, shape, slots=6, length=length)
    for slot, position in zip(slots, positions, strict=True):
        ours.poison(slot, position)
    twins = ours.copy()
    out = decode_attention(*ours.given(), torch.tensor(slots), torch.tensor(positions), new)
    each_slot = [slot for slot in slots for _ in range(new)]
    each_position = [position + index for position in positions for index in range(new)]
    torch.testing.assert_close(out, attend_twin(twins, each_slot, each_position), **TOLERANCE)
    agree(ours, twins)


def test_code_predictor_attention_works_step_by_step_on_a_cache_of_16() -> None:
    """The code predictor first writes two positions, and then one position per step."""
    ours = heads_of(3, 2 * 3, SHAPES["three"], slots=3, length=16)
    for slot in range(3):
        ours.poison(slot, 0)
    twins = ours.copy()
    rows = torch.tensor([2, 0, 1])
    out = decode_attention(*ours.given(), rows, torch.zeros(3, dtype=torch.int64), 2)
    torch.testing.assert_close(out, attend_twin(twins, [2, 2, 0, 0, 1, 1], [0, 1] * 3), **TOLERANCE)
    for position in range(2, 16):
        step = heads_of(position, 3, SHAPES["three"], slots=3, length=16)
        args = (step.qkv, *ours.given()[1:], rows, torch.full((3,), position))
        expected = attend_twin(Heads(step.qkv, *twins.given()[1:]), [2, 0, 1], [position] * 3)
        torch.testing.assert_close(decode_attention(*args), expected, **TOLERANCE)
    agree(ours, twins)


def test_decode_attention_is_batch_invariant() -> None:
    rows, positions = torch.tensor([3, 1, 0, 2]), torch.tensor([200, 3, 131, 64])
    ours = heads_of(7, 4, SHAPES["three"], slots=4, length=256)
    together = decode_attention(*ours.copy().given(), rows, positions)
    for row in range(4):
        alone = (ours.qkv[row : row + 1], *ours.copy().given()[1:], rows[row, None], positions[row, None])
        assert torch.equal(decode_attention(*alone)[0], together[row])


def test_out_of_range_position_writes_only_to_its_own_slot() -> None:
    ours = heads_of(8, 2, SHAPES["alone"], slots=3, length=16)
    before = ours.copy()
    decode_attention(*ours.given(), torch.tensor([1, 1]), torch.tensor([2**40, 16]))
    assert torch.equal(ours.keys[[0, 2]], before.keys[[0, 2]])
    assert torch.equal(ours.keys[1, :, :15], before.keys[1, :, :15])


@pytest.mark.filterwarnings("ignore:All-NaN slice encountered")
def test_non_finite_row_does_not_affect_other_rows() -> None:
    ours = heads_of(9, 3, SHAPES["three"], slots=3, length=64)
    rows, positions = torch.tensor([0, 1, 2]), torch.tensor([20, 30, 40])
    healthy = decode_attention(*ours.copy().given(), rows, positions)
    ours.qkv[1] = torch.nan
    faulty = decode_attention(*ours.copy().given(), rows, positions)
    assert faulty[1].isnan().all()
    assert torch.equal(faulty[[0, 2]], healthy[[0, 2]])


@per_shape
@pytest.mark.parametrize(("start", "count"), [(0, TILE), (0, 50), (3, 7), (BLOCK + 9, 2 * TILE)])
def test_prefill_attention_equals_its_pytorch_twin(shape: tuple[int, int, int], start: int, count: int) -> None:
    ours = heads_of(start, count, shape, slots=3, length=200)
    ours.poison(1, start)
    twins = ours.copy()
    out = prefill_attention(*ours.given(), torch.tensor([1]), torch.tensor([start]))
    expected = attend_twin(twins, [1] * count, list(range(start, start + count)))
    torch.testing.assert_close(out, expected, **TOLERANCE)
    agree(ours, twins)


@pytest.mark.filterwarnings("ignore:All-NaN slice encountered")
def test_prefill_padding_writes_to_the_unread_scratch_position() -> None:
    """Only 10 of 24 positions fit into the slot.

    The other positions must change neither the results nor any position that is read.
    """
    length, start, count = 40, 29, 24
    ours = heads_of(11, count, SHAPES["three"], slots=2, length=length)
    ours.poison(1, start)
    real = length - 1 - start
    twins = ours.copy()
    ours.qkv[real + 1 :] = torch.nan
    out = prefill_attention(*ours.given(), torch.tensor([1]), torch.tensor([start]))
    short = Heads(twins.qkv[:real], *twins.given()[1:])
    expected = attend_twin(short, [1] * real, list(range(start, start + real)))
    torch.testing.assert_close(out[:real], expected, **TOLERANCE)
    torch.testing.assert_close(ours.keys[:, :, :-1], short.keys[:, :, :-1], **TOLERANCE)
    assert torch.equal(ours.keys[0], short.keys[0])
    follow = decode_attention(ours.qkv[:1], *ours.given()[1:], torch.tensor([1]), torch.tensor([length - 2]))
    assert follow.isfinite().all()


def test_chunked_prefill_equals_prefill_of_the_whole_prompt() -> None:
    whole = heads_of(12, 70, SHAPES["published"], slots=2, length=128)
    parts = whole.copy()
    slot = torch.tensor([0])
    at_once = prefill_attention(*whole.given(), slot, torch.tensor([0]))
    cut = [
        prefill_attention(parts.qkv[start:stop], *parts.given()[1:], slot, torch.tensor([start]))
        for start, stop in ((0, 32), (32, 33), (33, 70))
    ]
    torch.testing.assert_close(torch.cat(cut), at_once, **TOLERANCE)
    assert torch.equal(whole.keys, parts.keys)
