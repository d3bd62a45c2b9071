"""The simulator of a cluster keeps to the arithmetic that anybody can do."""

from __future__ import annotations

import pytest

from tools.scaling import FRAME_S, Cluster, Figures, fitted

CARD = Figures(frame_ms=20.0, row_ms=1.0, slots=8)


def test_full_replicas_make_as_many_frames_as_their_turns_hold() -> None:
    one = Cluster(CARD, 1).closed(8, [50], each=10)
    assert one.audio_s_per_s == pytest.approx(8 * FRAME_S / 0.027, rel=0.02)
    two = Cluster(CARD, 2).closed(16, [50], each=10)
    assert two.audio_s_per_s == pytest.approx(2 * one.audio_s_per_s, rel=0.02)
    assert (one.most_at_once, two.most_at_once) == (8, 16)


def test_replicas_that_share_processors_are_slower_by_what_is_missing() -> None:
    shared = Figures(frame_ms=20.0, row_ms=1.0, slots=8, cores=2.0, cores_each=1.5)
    alone, both = (Cluster(shared, replicas).closed(8 * replicas, [50], each=10) for replicas in (1, 2))
    assert both.audio_s_per_s / alone.audio_s_per_s == pytest.approx(2 * 2.0 / 3.0, rel=0.03)


def test_who_finds_no_slot_waits_for_one() -> None:
    crowded = Cluster(CARD, 1).closed(16, [50], each=4)
    assert crowded.most_at_once == 8
    assert crowded.streams == 64
    assert crowded.first_p95_ms > 45 * 27


def test_listeners_that_come_at_random_are_served_at_their_rate() -> None:
    outcome = Cluster(CARD, 2).opened(2.0, [50], 200.0)
    assert outcome.audio_s_per_s == pytest.approx(2.0 * 50 * FRAME_S, rel=0.15)


def test_the_two_figures_of_a_replica_follow_from_two_rates() -> None:
    assert fitted(FRAME_S / 0.020, 8 * FRAME_S / 0.027, 8) == pytest.approx((20.0, 1.0))
    assert fitted(FRAME_S / 0.020, FRAME_S / 0.020, 1) == pytest.approx((20.0, 0.0)), "a replica of one slot"
