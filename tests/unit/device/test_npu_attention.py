"""Tests for the NPU's attention: results equal to PyTorch's, and refused masks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.device.npu import NpuDevice
from runtime.device.npu_attention import (
    BLOCK_POSITIONS,
    BOTTOM_RIGHT,
    COMPRESSED_MASK_SIZE,
    EXPLICIT_MASK_MODE,
    check_attention,
)
from runtime.errors import AttentionRefused, DeviceUnavailable
from tests.support.npu_backend import NPU
from tests.support.torch_npu_stand_in import StandIn

HEADS, KV_HEADS, WIDTH = 6, 3, 16
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}

both = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def heads(rows: int, q: int, k: int, dtype: torch.dtype, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(rows, HEADS, q, WIDTH, generator=generator).to(dtype),
        torch.randn(rows, KV_HEADS, k, WIDTH, generator=generator).to(dtype),
        torch.randn(rows, KV_HEADS, k, WIDTH, generator=generator).to(dtype),
    )


def on_npu(*parts: Tensor) -> list[Tensor]:
    """Return copies of tensors on the NPU, which have the same strides."""
    return [torch.empty_strided(part.shape, part.stride(), dtype=part.dtype, device=NPU).copy_(part) for part in parts]


def expected(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
    """Return the attention output of PyTorch.

    The mask `seen` is True for visible keys.
    """
    return F.scaled_dot_product_attention(q.float(), k.float(), v.float(), attn_mask=seen, enable_gqa=True)


def assert_near(out: Tensor, truth: Tensor) -> None:
    torch.testing.assert_close(out.float(), truth, rtol=0, atol=TOLERANCE[out.dtype])


@both
@pytest.mark.parametrize(("rows", "before", "new"), [(1, 0, 1), (1, 0, 9), (1, 5, 3), (1, 70, 1), (3, 0, 2), (3, 9, 1)])
def test_new_positions_attend_causally(
    npu: NpuDevice, ascend: StandIn, rows: int, before: int, new: int, dtype: torch.dtype
) -> None:
    q, k, v = heads(rows, new, before + new, dtype)
    out = npu.prefill_attention(*on_npu(q, k, v)).cpu()
    assert out.dtype is dtype
    assert_near(out, expected(q, k, v, torch.ones(new, before + new, dtype=torch.bool).tril(before)))
    operator = "fusion" if dtype is torch.float32 else "infer"
    assert ascend.calls == [(operator, tuple(q.shape), tuple(k.shape), BOTTOM_RIGHT if new > 1 else EXPLICIT_MASK_MODE)]


@both
def test_keys_beyond_the_compressed_mask_are_attended(npu: NpuDevice, dtype: torch.dtype) -> None:
    before, new = COMPRESSED_MASK_SIZE + 50, 3
    q, k, v = heads(1, new, before + new, dtype)
    truth = expected(q, k, v, torch.ones(new, before + new, dtype=torch.bool).tril(before))
    assert_near(npu.prefill_attention(*on_npu(q, k, v)).cpu(), truth)


@both
def test_strided_views_of_the_cache_are_supported(npu: NpuDevice, dtype: torch.dtype) -> None:
    _, k, v = heads(4, 1, 32, dtype)
    q = heads(1, 5, 5, dtype, seed=1)[0].transpose(1, 2).contiguous().transpose(1, 2)
    k, v = k[2:3, :, :11], v[2:3, :, :11]
    assert not q.is_contiguous()
    assert not k.is_contiguous()
    out = npu.prefill_attention(*on_npu(q, k, v)).cpu()
    assert_near(out, expected(q, k, v, torch.ones(5, 11, dtype=torch.bool).tril(6)))


@both
def test_prefill_accepts_an_explicit_mask(npu: NpuDevice, dtype: torch.dtype) -> None:
    q, k, v = heads(1, 4, 12, dtype)
    seen = torch.rand(4, 12, generator=torch.Generator().manual_seed(3)) < 0.5
    seen[:, 2] = True
    assert_near(npu.prefill_attention(*on_npu(q, k, v, seen)).cpu(), expected(q, k, v, seen))


SLOTS, TOTAL = 7, 2 * BLOCK_POSITIONS


def arena(dtype: torch.dtype, seed: int) -> tuple[Tensor, Tensor]:
    """Return random keys and values of one layer for all slots.

    Shapes: [SLOTS, KV_HEADS, TOTAL, WIDTH] each.
    """
    keys, values = torch.randn(2, SLOTS, KV_HEADS, TOTAL, WIDTH, generator=torch.Generator().manual_seed(seed)).to(
        dtype
    )
    return keys, values


@both
@pytest.mark.parametrize("new", [1, 5])
@pytest.mark.parametrize("seed", range(4))
def test_decode_writes_to_its_own_slot_and_attends_up_to_its_length(
    npu: NpuDevice, ascend: StandIn, seed: int, new: int, dtype: torch.dtype
) -> None:
    """Other slots are unchanged, no slot is copied completely, and the AI CPU is not used."""
    generator, span = torch.Generator().manual_seed(seed), (100, TOTAL)[seed % 2]
    rows = torch.randperm(SLOTS, generator=generator)[: 1 + seed]
    starts = torch.randint(0, span - new + 1, (len(rows),), generator=generator)
    starts[0] = (0, span - new)[seed % 2]
    keys, values = arena(dtype, seed)
    q, k, v = heads(len(rows), new, new, dtype, seed)
    held = on_npu(keys, values)
    ascend.npu.copied, ascend.npu.ai_cpu = 0, []
    which, where = on_npu(rows, starts)
    attend = npu.attend_slots(which, where, span, held[0], new)
    out = attend(*on_npu(q, k, v), *held).cpu()
    for row, (slot, start) in enumerate(zip(rows.tolist(), starts.tolist(), strict=True)):
        keys[slot, :, start : start + new], values[slot, :, start : start + new] = k[row], v[row]
        seen = torch.ones(new, start + new, dtype=torch.bool).tril(start)
        own_k, own_v = (part[slot, None, :, : start + new] for part in (keys, values))
        assert_near(out[row : row + 1], expected(q[row : row + 1], own_k, own_v, seen))
    assert torch.equal(held[0].cpu(), keys)
    assert torch.equal(held[1].cpu(), values)
    assert (ascend.npu.copied, ascend.npu.ai_cpu) == (0, [])


def test_index_put_across_the_heads_dimension_runs_on_the_ai_cpu(npu: NpuDevice, ascend: StandIn) -> None:
    """The CPU device uses this kind of indexing.

    On an NPU, reading a range of positions this way would copy all slots.
    """
    keys, _ = on_npu(*arena(torch.bfloat16, 0))
    rows, places = on_npu(torch.tensor([1, 2]), torch.tensor([3, 4]))
    keys[rows, :, places] = keys[rows, :, 0]
    assert ascend.npu.ai_cpu == [("index_put_", "indices that are not beside each other")]
    ascend.npu.copied = 0
    keys[:, :, :BLOCK_POSITIONS][rows]
    assert ascend.npu.copied == keys.nbytes // 2


def test_positions_beyond_the_slot_are_written_to_its_last_position(npu: NpuDevice) -> None:
    held = on_npu(*arena(torch.float32, 1))
    before = held[0].cpu()
    rows, starts = on_npu(torch.tensor([3]), torch.tensor([TOTAL - 2]))
    npu.attend_slots(rows, starts, TOTAL, held[0], 4)(*on_npu(*heads(1, 4, 4, torch.float32)), *held)
    before[3, :, -2:] = 0
    after = held[0].cpu()
    after[3, :, -2:] = 0
    assert torch.equal(before, after)


@both
@pytest.mark.parametrize("left", [math.nan, math.inf])
def test_stale_keys_after_the_row_end_are_not_attended(npu: NpuDevice, left: float, dtype: torch.dtype) -> None:
    q, k, v = heads(2, 1, 1, dtype)
    rows, starts = torch.tensor([0, 1]), torch.tensor([4, 20])
    keys, values = arena(dtype, 2)
    outs = []
    for _ in range(2):
        held = on_npu(keys, values)
        which, where = on_npu(rows, starts)
        outs.append(npu.attend_slots(which, where, BLOCK_POSITIONS, held[0])(*on_npu(q, k, v), *held).cpu())
        keys[0, :, 5:] = values[0, :, 5:] = left
    assert torch.equal(*outs)


# --- Tests of attention masks that are refused.


def causal(size: int = COMPRESSED_MASK_SIZE) -> Tensor:
    return torch.ones(size, size, dtype=torch.bool).triu(1)


def test_attention_masks_of_the_engine_are_accepted() -> None:
    check_attention(*heads(1, 3, 9, torch.bfloat16), causal(), BOTTOM_RIGHT)
    check_attention(*heads(2, 1, 9, torch.bfloat16), None, EXPLICIT_MASK_MODE)
    check_attention(*heads(2, 1, 9, torch.bfloat16), torch.zeros(2, 1, 1, 9, dtype=torch.bool), EXPLICIT_MASK_MODE)


def every_other(tensor: Tensor) -> Tensor:
    """Return a copy of a tensor whose memory is not contiguous."""
    return torch.stack((tensor, tensor), dim=-1)[..., 0]


def changed_parts(change: Callable[[Tensor], Tensor]) -> Iterator[list[Tensor]]:
    """Yield queries, keys and values, each time with one of the three changed by `change`."""
    for changed in range(3):
        yield [change(part) if number == changed else part for number, part in enumerate((Q, K, V))]


Q, K, V = heads(2, 1, 9, torch.bfloat16)
SEEN = torch.zeros(2, 1, 1, 9, dtype=torch.bool)
LAYOUT = "queries, keys and values must have the shape"
NUMBERS = (torch.float32, torch.bfloat16, torch.uint8, torch.int8)
SHAPES = [(2, 9), (9,), (1, 1, 1, 9), (2, 1, 1, 8), (2, 6, 1, 9)]
# Calls that are refused: queries, keys, values, mask, mode, and a part of the message. PyTorch adds numeric masks to
# the scores, and the NPU's operator would convert them to booleans.
REFUSED: list[tuple[Tensor, Tensor, Tensor, Tensor | None, int, str]] = [
    *((*heads(1, 3, 9, torch.bfloat16), causal(size), BOTTOM_RIGHT, "2048 by 2048") for size in (2047, 2049)),
    *((*heads(1, P, 9, torch.bfloat16), causal(), 2, "mode 2 is unknown, or aligns the first") for P in (1, 3, 9)),
    (*heads(1, 5, 4, torch.bfloat16), causal(), BOTTOM_RIGHT, "cannot have more queries than keys"),
    (*heads(1, 2, 9, torch.bfloat16), None, EXPLICIT_MASK_MODE, "also attend to later keys"),
    *((Q, K, V, SEEN.to(kind), 0, "the mask must be Boolean") for kind in NUMBERS),
    *((Q, K, V, torch.zeros(shape, dtype=torch.bool), 0, "for 1 queries and 9 keys") for shape in SHAPES),
    (Q, K, V, every_other(SEEN), 0, "contiguous masks"),
    *((*parts, SEEN, 0, "contiguous tensors") for parts in changed_parts(every_other)),
    *((*parts, SEEN, 0, "must have the same dtype") for parts in changed_parts(Tensor.float)),
    *((*parts, SEEN, 0, LAYOUT) for parts in changed_parts(lambda part: part.flatten(2))),
    (Q, K.transpose(1, 2).contiguous(), V, None, EXPLICIT_MASK_MODE, "of 2 rows"),
]


@pytest.mark.parametrize(("q", "k", "v", "mask", "mode", "message"), REFUSED, ids=range(len(REFUSED)))
def test_arguments_that_the_operators_would_misinterpret_are_refused(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, mode: int, message: str
) -> None:
    with pytest.raises(AttentionRefused, match=message):
        check_attention(q, k, v, mask, mode)


def test_top_left_aligned_mask_would_silently_give_wrong_results(ascend: StandIn) -> None:
    """If there are older keys, mode 2 attends to the first keys instead of the last keys."""
    q, k, v = heads(1, 2, 9, torch.bfloat16)
    words = {
        "atten_mask": causal().to(NPU),
        "num_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "input_layout": "BNSD",
    }
    outs = [
        ascend.npu_fused_infer_attention_score(*on_npu(q, k, v), sparse_mode=mode, scale=WIDTH**-0.5, **words)[0].cpu()
        for mode in (2, 3)
    ]
    seen = torch.ones(2, 9, dtype=torch.bool)
    assert_near(outs[0], expected(q, k, v, seen.tril(0)))
    assert_near(outs[1], expected(q, k, v, seen.tril(7)))
    assert not torch.allclose(outs[0].float(), outs[1].float(), atol=0.1)


def test_unsupported_checkpoint_is_refused_with_the_reason() -> None:
    def given(query_heads: int, key_heads: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        keys = torch.zeros(1, key_heads, 4, width, dtype=dtype)
        return torch.zeros(1, query_heads, 1, width, dtype=dtype), keys, keys

    check_attention(*given(4, 2, 20, torch.float32), None, EXPLICIT_MASK_MODE)
    with pytest.raises(DeviceUnavailable, match=r"in steps of 16 .*; this checkpoint has 20"):
        check_attention(*given(4, 2, 20, torch.bfloat16), None, EXPLICIT_MASK_MODE)
    with pytest.raises(DeviceUnavailable, match="64 per key head; this checkpoint has 65 and 1"):
        check_attention(*given(65, 1, 16, torch.bfloat16), None, EXPLICIT_MASK_MODE)
