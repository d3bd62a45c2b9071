"""Tests for benchmark metrics with given arrival times: percentiles, underruns and rates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.common.metrics import (
    BYTES_PER_S,
    RequestOutcome,
    RequestTrace,
    SimulatedPlayer,
    audio_rate,
    peak_in_flight,
    percentile,
    reply_rate,
    simulate_playback,
    summarize_runs,
)

SECOND = 1_000_000_000
HALF = BYTES_PER_S // 2  # Number of bytes in half a second of audio.


def chunks_at(*seconds: float) -> list[tuple[int, int]]:
    """Return chunks of half a second of audio, as pairs of arrival time (ns) and bytes."""
    return [(round(second * SECOND), HALF) for second in seconds]


def a_trace(
    number: int = 0, sent: float = 0.0, end: float = 2.0, chunks: tuple[float, ...] = (0.1, 0.4)
) -> RequestTrace:
    trace = RequestTrace(number, wanted_bytes=HALF * len(chunks), outcome=RequestOutcome.DONE)
    trace.sent_ns, trace.end_ns, trace.chunks = round(sent * SECOND), round(end * SECOND), chunks_at(*chunks)
    return trace


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 15), (0.05, 15), (0.3, 20), (0.4, 20), (0.5, 35), (0.95, 50), (1.0, 50)]
)
def test_percentile_of_known_samples_is_exact(share: float, value: int) -> None:
    assert percentile([50, 15, 40, 20, 35], share) == value


def test_percentile_without_samples_is_none() -> None:
    assert percentile([], 0.5) is None


@pytest.mark.parametrize(
    ("arrivals", "wanted"),
    [
        ((), SimulatedPlayer(0, 0.0)),
        ((3.0,), SimulatedPlayer(0, 0.0)),
        ((3.0, 3.1, 3.2), SimulatedPlayer(0, 0.0)),
        ((3.0, 3.5, 4.0), SimulatedPlayer(0, 0.0)),  # Each chunk arrives at the last possible moment.
        ((3.0, 3.6, 3.7), SimulatedPlayer(1, 0.1)),  # The player has no audio for 0.1 s.
        ((3.0, 3.6, 4.2), SimulatedPlayer(2, 0.2)),  # The player continues at 3.6 s and has no audio from 4.1 s on.
        ((3.0, 3.6, 4.1), SimulatedPlayer(1, 0.1)),  # As in the previous case, but the last chunk arrives in time.
    ],
)
def test_underruns_of_a_player_without_a_buffer_are_counted(
    arrivals: tuple[float, ...], wanted: SimulatedPlayer
) -> None:
    played = simulate_playback(chunks_at(*arrivals))
    assert played.underruns == wanted.underruns
    assert played.deficit_s == pytest.approx(wanted.deficit_s, abs=1e-9)


def test_underruns_and_goodput_are_counted_for_a_player_with_a_buffer() -> None:
    row = summarize_runs([a_trace(chunks=(0.1, 0.65)), a_trace(chunks=(0.1, 0.75))])
    assert (row["underruns"], row["max_deficit_ms"]) == (2, 150.0)
    assert row["goodput_rps"] == pytest.approx(row["rps"] / 2)


def test_times_are_measured_from_just_before_the_request() -> None:
    row = summarize_runs([a_trace(sent=0.05), a_trace(sent=0.0)])
    assert (row["ttfa_p50_ms"], row["ttfa_p95_ms"]) == (50.0, 100.0)
    assert row["e2e_p95_ms"] == 2000.0


def test_incomplete_audio_counts_as_failed() -> None:
    short = a_trace()
    short.wanted_bytes += 2
    row = summarize_runs([a_trace(), short])
    assert (row["failed"], row["calls"], row["e2e_p50_ms"]) == (1, 2, 2000.0)


@pytest.mark.parametrize(("chunks", "stop", "failed"), [((0.1,), "eos", 0), ((0.1,), "runaway", 1), ((), "eos", 1)])
def test_early_end_by_the_model_is_not_a_failure(chunks: tuple[float, ...], stop: str, failed: int) -> None:
    trace = a_trace(chunks=chunks)
    trace.wanted_bytes, trace.stop = 10 * BYTES_PER_S, stop
    assert summarize_runs([a_trace(), trace])["failed"] == failed


def test_refusals_are_neither_failures_nor_replies() -> None:
    refused = a_trace(chunks=())
    refused.outcome, refused.code = RequestOutcome.REFUSED, "overloaded"
    row = summarize_runs([a_trace(), refused])
    assert (row["failed"], row["refused"], row["errors"]) == (0, 1, "overloaded")


def test_cancelled_calls_are_not_failures() -> None:
    cancelled = a_trace()
    cancelled.outcome, cancelled.wanted_bytes = RequestOutcome.CANCELLED, 10 * BYTES_PER_S
    assert summarize_runs([a_trace(), cancelled])["failed"] == 0


def test_warm_up_failures_are_reported() -> None:
    failed = a_trace()
    failed.outcome, failed.is_counted = RequestOutcome.FAILED, False
    row = summarize_runs([a_trace(), failed])
    assert (row["failed"], row["calls"]) == (1, 1)


def test_drain_phase_is_excluded_from_the_rate() -> None:
    """Half a second of audio arrives at 1 s, and half a second at 2 s.

    The last call is sent at 2 s, and its audio arrives later.
    """
    first = a_trace(sent=0.0, end=2.0, chunks=(1.0, 2.0))
    last = a_trace(sent=2.0, end=9.0, chunks=(8.0, 9.0))
    assert audio_rate([first, last]) == pytest.approx(0.5)


def test_rates_start_with_the_first_counted_call() -> None:
    """A warm-up call needs four seconds to prepare a voice.

    Audio of the warm-up call that arrives after the first counted call also counts.
    """
    warm = replace(a_trace(sent=0.0, end=5.0, chunks=(4.0, 5.0)), is_counted=False)
    first = a_trace(sent=4.5, end=6.0, chunks=(5.5, 6.0))
    last = a_trace(sent=6.5, end=9.0, chunks=(8.0, 9.0))
    assert audio_rate([warm, first, last]) == pytest.approx(1.5 / 2)
    assert reply_rate([warm, first, last]) == pytest.approx(2 / 2)


def test_peak_number_of_concurrent_calls_is_counted() -> None:
    assert peak_in_flight([a_trace(sent=0, end=2), a_trace(sent=1, end=3), a_trace(sent=2, end=4)]) == 2
    assert peak_in_flight([a_trace(sent=0, end=4), a_trace(sent=1, end=3), a_trace(sent=2, end=4)]) == 3
