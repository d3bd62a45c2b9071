"""Chunk sizes against a listener in a simulation: the first sound at once, then no gap that need not be."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.engine.scheduler import ChunkPolicy, frame_limit

FRAME_S = 0.08


def played(policy: ChunkPolicy, step_s: list[float]) -> tuple[list[int], float]:
    """Chunk sizes, and seconds in which a listener who began at once had nothing to hear.

    ``step_s`` is what each frame takes to make. Sound is cut into chunks between frames, as the engine does.
    """
    now = pending = sent = last = 0.0
    first: float | None = None
    heard_until = gaps = 0.0
    sizes: list[int] = []
    for step in step_s:
        now += step
        pending += 1
        lead = 0.0 if first is None else sent * FRAME_S - (now - first)
        size = policy.next_size(int(last), lead)
        if pending < size:
            continue
        first = now if first is None else first
        heard_until = heard_until or now
        gaps += max(0.0, now - heard_until)
        heard_until = max(now, heard_until) + size * FRAME_S
        pending, sent, last = pending - size, sent + size, size
        sizes.append(size)
    return sizes, gaps


POLICY = ChunkPolicy(first=1, largest=16, frame_s=FRAME_S)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7, 0.95])
def test_an_engine_faster_than_speech_leaves_no_gap(share: float) -> None:
    sizes, gaps = played(POLICY, [share * FRAME_S] * 400)
    assert sizes[0] == 1
    assert gaps < 1e-9


@settings(max_examples=200, deadline=None, derandomize=True)
@given(shares=st.lists(st.floats(0.01, 0.99), min_size=1, max_size=200))
def test_an_engine_that_keeps_changing_its_pace_leaves_no_gap_while_it_is_faster(shares: list[float]) -> None:
    assert played(POLICY, [share * FRAME_S for share in shares])[1] < 1e-9


def test_chunks_double_up_to_the_largest_when_there_is_time() -> None:
    sizes, _ = played(POLICY, [0.05 * FRAME_S] * 200)
    assert sizes[0] == 1
    assert max(sizes) == 16
    assert all(after <= 2 * before for before, after in itertools.pairwise(sizes))
    assert sizes[-1] == 16


def test_an_engine_slower_than_speech_sends_every_frame_as_soon_as_it_is_made() -> None:
    sizes, _ = played(POLICY, [1.5 * FRAME_S] * 50)
    assert set(sizes) == {1}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(first=st.integers(1, 8), largest=st.integers(1, 64), last=st.integers(0, 64), lead=st.floats(-10, 60))
def test_a_chunk_never_outgrows_the_largest_the_double_or_the_lead(
    first: int, largest: int, last: int, lead: float
) -> None:
    size = ChunkPolicy(first=first, largest=largest, frame_s=FRAME_S).next_size(last, lead)
    assert size >= 1
    if last:
        assert size <= min(2 * last, largest)
        assert size == 1 or size * FRAME_S <= lead
    else:
        assert size == first


@pytest.mark.parametrize(
    ("room", "budget", "asked", "limit"), [(100, 50, None, 50), (40, 50, None, 40), (100, 50, 80, 80), (60, 50, 80, 60)]
)
def test_the_frame_limit_is_what_was_asked_or_the_budget_and_never_more_than_the_room(
    room: int, budget: int, asked: int | None, limit: int
) -> None:
    assert frame_limit(room, budget, asked) == limit
