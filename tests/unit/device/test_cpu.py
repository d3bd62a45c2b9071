"""Tests for the CPU device's attention, compared with a direct computation.

The tests of other devices use the attention of the CPU device as the reference.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from runtime.device import cpu
from runtime.device.cpu import SMALL, CpuDevice, ThreadCounts, choose_threads, split_cores

HEADS, KV_HEADS, WIDTH = 6, 2, 8


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return the attention output of one query, computed head by head.

    Shapes: q [heads, d]; k, v [kv_heads, T, d]; result [heads, d].
    """
    rows = []
    for head in range(HEADS):
        group = head // (HEADS // KV_HEADS)
        weights = (k[group] @ q[head] / WIDTH**0.5).softmax(dim=-1)
        rows.append(weights @ v[group])
    return torch.stack(rows)


@pytest.mark.parametrize("length", [1, 2, 9])
def test_prefill_attention_is_causal(length: int) -> None:
    generator = torch.Generator().manual_seed(length)
    q = torch.randn(1, HEADS, length, WIDTH, generator=generator)
    k, v = torch.randn(2, 1, KV_HEADS, length, WIDTH, generator=generator)
    out = CpuDevice().prefill_attention(q, k, v)
    for position in range(length):
        expected = attention(q[0, :, position], k[0, :, : position + 1], v[0, :, : position + 1])
        torch.testing.assert_close(out[0, :, position], expected)


@pytest.mark.parametrize(("before", "new"), [(1, 1), (4, 3), (16, 16), (130, 7)])
def test_prefill_chunk_attends_to_all_previous_positions(before: int, new: int) -> None:
    generator = torch.Generator().manual_seed(before)
    q = torch.randn(1, HEADS, new, WIDTH, generator=generator)
    k, v = torch.randn(2, 1, KV_HEADS, before + new, WIDTH, generator=generator)
    out = CpuDevice().prefill_attention(q, k, v)
    for position in range(new):
        end = before + position + 1
        torch.testing.assert_close(out[0, :, position], attention(q[0, :, position], k[0, :, :end], v[0, :, :end]))


def test_decode_attention_reads_its_own_slot_up_to_its_length() -> None:
    generator = torch.Generator().manual_seed(0)
    slots, lengths, total = torch.tensor([4, 0, 2]), torch.tensor([3, 7, 1]), 7
    keys, values = torch.randn(2, 5, KV_HEADS, total, WIDTH, generator=generator)
    for slot in range(5):
        written = dict(zip(slots.tolist(), lengths.tolist(), strict=True)).get(slot, 0)
        keys[slot, :, written:] = values[slot, :, written:] = math.nan
    q = torch.randn(3, HEADS, 1, WIDTH, generator=generator)
    out = CpuDevice().decode_attention(q, keys, values, slots, lengths)
    assert out.shape == (3, HEADS, 1, WIDTH)
    for row, (slot, length) in enumerate(zip(slots, lengths, strict=True)):
        expected = attention(q[row, :, 0], keys[slot, :, :length], values[slot, :, :length])
        torch.testing.assert_close(out[row, :, 0], expected)


def test_small_networks_use_one_thread_and_large_networks_use_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "CORE_COUNT", 7)
    with torch.device("meta"):
        small, large = nn.Linear(1000, SMALL // 1000 - 1, bias=False), nn.Linear(1000, SMALL // 1000, bias=False)
    assert choose_threads([]) == choose_threads([small, small]) == ThreadCounts(1, 1)
    assert choose_threads([small, large]) == ThreadCounts(6, 1)


@pytest.mark.parametrize(("cores", "frames", "sound"), [(1, 1, 1), (2, 1, 1), (4, 3, 1), (8, 6, 2), (16, 12, 4)])
def test_frame_threads_and_audio_threads_share_no_core(cores: int, frames: int, sound: int) -> None:
    assert split_cores(cores) == ThreadCounts(frames, sound)
