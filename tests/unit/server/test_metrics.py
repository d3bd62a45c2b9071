"""Tests for the metrics of requests, sessions, load and the event loop."""

from __future__ import annotations

import asyncio
import time

from prometheus_client.parser import text_string_to_metric_families

from runtime.errors import GenerationFailed
from runtime.request import Broken, EngineLoad, Finished, Guard, Mode, RequestStats, StopReason
from runtime.server.logs import RequestLog
from runtime.server.metrics import ServerMetrics

CLONE = RequestLog(id="1/1", dialect="openai", mode=Mode.BASE)
STATS = RequestStats(queue_ms=40, ttfa_ms=120, total_ms=540, audio_s=2.0, underruns=3)


def read(metrics: ServerMetrics, load: EngineLoad | None = None) -> dict[tuple[str, ...], float]:
    """Return the value of each metric sample, keyed by its name and label values.

    The label values are sorted by label name. The Prometheus client parses the page.
    """
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(metrics.format_page(load).decode())
        for sample in family.samples
    }


def test_finished_request_is_counted_with_its_statistics() -> None:
    metrics = ServerMetrics()
    metrics.record_ended_request(CLONE, Finished(stop_reason=StopReason.EOS, stats=STATS))
    values = read(metrics)
    assert values["voicewright_requests_total", "openai", "base", "eos"] == 1
    assert values["voicewright_audio_seconds_total", "openai", "base"] == 2
    assert values["voicewright_underruns_total", "openai", "base"] == 3
    assert values["voicewright_queue_seconds_sum", "openai", "base"] == 0.04
    assert values["voicewright_ttfa_seconds_bucket", "openai", "0.15", "base"] == 1
    assert values["voicewright_ttfa_seconds_bucket", "openai", "0.1", "base"] == 0
    assert values["voicewright_rtf_sum", "openai", "base"] == 0.25


def test_runaways_cancels_and_failures_are_counted_separately() -> None:
    metrics = ServerMetrics()
    guarded = RequestStats(audio_s=1, guard=Guard.REPETITION)
    metrics.record_ended_request(CLONE, Finished(stop_reason=StopReason.RUNAWAY, stats=guarded))
    metrics.record_ended_request(CLONE, Finished(stop_reason=StopReason.CANCELLED, stats=RequestStats()))
    metrics.record_ended_request(CLONE, Broken(GenerationFailed(), RequestStats()))
    metrics.count_refusal("overloaded")
    values = read(metrics)
    assert values["voicewright_guard_hits_total", "repetition"] == 1
    for outcome in ("runaway", "cancelled", "generation_failed"):
        assert values["voicewright_requests_total", "openai", "base", outcome] == 1
    assert values["voicewright_refusals_total", "overloaded"] == 1
    # A request without audio has no time to first audio.
    assert ("voicewright_ttfa_seconds_count", "openai", "base") not in values


def test_session_and_load_gauges_show_the_current_values() -> None:
    metrics = ServerMetrics()
    with metrics.count_open_session("omni"), metrics.count_open_session("omni"):
        values = read(
            metrics, EngineLoad(slots=8, active=3, waiting=2, waiting_for_text=1, free_bytes=5, total_bytes=9)
        )
    assert values["voicewright_sessions", "omni"] == 2
    assert [values[f"voicewright_{name}",] for name in ("slots", "active", "waiting")] == [8, 3, 2]
    # The former name of the metric is still exported.
    assert values["voicewright_waiting_for_text",] == values["voicewright_short_of_text",] == 1
    assert read(metrics)["voicewright_sessions", "omni"] == 0


async def test_blocked_event_loop_is_measured() -> None:
    metrics = ServerMetrics()

    watching = asyncio.create_task(metrics.watch_lag())
    await asyncio.sleep(0.01)
    time.sleep(0.8)  # noqa: ASYNC251  The test blocks the event loop on purpose.
    await asyncio.sleep(0.01)
    watching.cancel()
    values = read(metrics)
    assert values["voicewright_loop_lag_seconds_count",] >= 1
    assert values["voicewright_loop_lag_seconds_sum",] > 0.2


def test_engine_counters_are_exported_as_they_grow() -> None:
    metrics = ServerMetrics()
    assert (
        read(metrics, EngineLoad(slots=8, active=0, waiting=0, frames=40, uncaptured=2))["voicewright_frames_total",]
        == 40
    )
    values = read(
        metrics, EngineLoad(slots=8, active=0, waiting=0, frames=50, uncaptured=2, free_bytes=5, total_bytes=9)
    )
    assert (values["voicewright_frames_total",], values["voicewright_uncaptured_total",]) == (50, 2)
    assert (values["voicewright_memory_bytes", "free"], values["voicewright_memory_bytes", "total"]) == (5, 9)
