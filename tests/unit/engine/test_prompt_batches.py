"""Tests that combine the prefill chunks of several prompts into few kernel launches."""

from __future__ import annotations

import random

import pytest
import torch

from runtime.engine.execution.prompt_batches import (
    MAX_UNDIVIDED_POSITIONS,
    PIECE_POSITIONS,
    POSITIONS,
    Chunk,
    PackedPieces,
    PromptBatches,
    WholeChunks,
)

SCRATCH = 64
WAYS: list[PromptBatches] = [PackedPieces(), WholeChunks(128)]


def chunks_of(*lengths: int) -> list[Chunk]:
    """Return prefill chunks in which the embedding of each position is a distinct number."""
    ends = torch.tensor(lengths).cumsum(0).tolist()
    return [
        (slot, 3 * slot, torch.arange(end - length, end, dtype=torch.float32)[:, None])
        for slot, (length, end) in enumerate(zip(lengths, ends, strict=True))
    ]


def launched(ways: PromptBatches, chunks: list[Chunk]) -> tuple[dict[tuple[int, int], float], dict[int, int]]:
    """Return the embedding read at each (slot, position), and the last position of each slot.

    The last position is the value after all launches.
    """
    read: dict[tuple[int, int], float] = {}
    stands: dict[int, int] = {}
    for batch in ways.batches(chunks, SCRATCH):
        pieces, size = batch.shape
        assert batch.shape in set(ways.shapes())
        laid = torch.zeros(pieces * size)
        for at, part in batch.inputs:
            laid[at : at + len(part)] = part[:, 0]
        for piece, (slot, start, count, row, stop) in enumerate(batch.places.T.tolist()):
            assert batch.reach >= start + count
            assert (row, stop) in ((SCRATCH, 0), (slot, start + count))
            stands[row] = stop
            if slot != SCRATCH:
                kwargs = laid[piece * size : piece * size + count].tolist()
                assert not read.keys() & {(slot, start + at) for at in range(count)}
                read |= {(slot, start + at): value for at, value in enumerate(kwargs)}
    return read, stands


@pytest.mark.parametrize("ways", WAYS, ids=lambda ways: type(ways).__name__)
@pytest.mark.parametrize("seed", range(20))
def test_every_position_is_computed_once_and_each_row_ends_after_its_last_position(
    ways: PromptBatches, seed: int
) -> None:
    draw = random.Random(seed)
    chunks = chunks_of(*(draw.randint(1, 128) for _ in range(draw.randint(1, 8))))
    read, stands = launched(ways, chunks)
    assert read == {
        (slot, start + at): value for slot, start, part in chunks for at, value in enumerate(part[:, 0].tolist())
    }
    stands.pop(SCRATCH, None)
    assert stands == {slot: start + len(part) for slot, start, part in chunks}


def test_chunk_longer_than_a_launch_is_split() -> None:
    chunks = chunks_of(40, 2 * POSITIONS[-1] + 5)
    read, stands = launched(PackedPieces(), chunks)
    assert len(read) == 40 + 2 * POSITIONS[-1] + 5
    assert stands[1] == 3 + 2 * POSITIONS[-1] + 5


@pytest.mark.parametrize(
    ("lengths", "packed", "whole"),
    [
        ((35,), [64], [64]),
        ((70,), [128], [128]),
        ((35,) * 8, [384], [128] * 4),
        ((70,) * 8, [512, 128], [128] * 8),
        ((128,) * 8, [512, 512], [128] * 8),
        ((9, 128, 9), [192], [16, 128, 16]),
    ],
)
def test_packed_and_single_prompts_have_the_expected_launch_sizes(
    lengths: tuple[int, ...], packed: list[int], whole: list[int]
) -> None:
    for ways, expected in zip(WAYS, (packed, whole), strict=True):
        shapes = [batch.shape for batch in ways.batches(chunks_of(*lengths), SCRATCH)]
        assert [count * size for count, size in shapes] == expected


def test_launch_shapes_hold_complete_chunks_within_the_limit() -> None:
    assert all(positions % PIECE_POSITIONS == 0 for positions in POSITIONS)
    assert all(count == 1 or count * size <= MAX_UNDIVIDED_POSITIONS for count, size in WholeChunks(512).shapes())
    assert {count for count, _ in WholeChunks(128, (1, 2)).shapes()} == {1, 2}
