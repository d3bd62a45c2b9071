"""Prometheus metrics of the studio, and values for the page from the runtime's metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

CONTENT_TYPE = CONTENT_TYPE_LATEST

SCALARS = {
    "voicewright_slots": "slots",
    "voicewright_active": "active",
    "voicewright_waiting": "waiting",
    "voicewright_sessions": "sessions",
    "voicewright_frames_total": "frames",
    "voicewright_uncaptured_total": "uncaptured",
    "voicewright_underruns_total": "underruns",
    "voicewright_audio_seconds_total": "audio_s",
    "voicewright_requests_total": "requests",
    "voicewright_refusals_total": "refusals",
    "process_resident_memory_bytes": "resident_bytes",
}
SHARES = {"ttfa_p50_s": 0.5, "ttfa_p95_s": 0.95}


def figures(page: str) -> dict[str, Any]:
    """Parse the runtime's Prometheus metrics, and return the values that the page shows.

    A value is the sum over all labels. The result also has the memory in bytes by kind, and quantiles of the time to
    first audio in seconds. The quantiles are None if no audio has been generated.

    Args:
        page: Response body of the runtime's route /metrics.
    """
    sums: dict[str, float] = dict.fromkeys(SCALARS.values(), 0.0)
    memory: dict[str, float] = {}
    buckets: defaultdict[float, float] = defaultdict(float)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if name := SCALARS.get(sample.name):
                sums[name] += sample.value
            elif sample.name == "voicewright_memory_bytes":
                memory[sample.labels["kind"]] = sample.value
            elif sample.name == "voicewright_ttfa_seconds_bucket":
                buckets[float(sample.labels["le"])] += sample.value
    return {**sums, "memory": memory, **{name: quantile(buckets, share) for name, share in SHARES.items()}}


class _Starts:
    """Collector of a supervisor's start and restart counters."""

    def __init__(self, starts: int, restarts: Mapping[str, int]) -> None:
        self._starts, self._restarts = starts, restarts

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily("voicewright_runtime_starts", "Times that it was started", value=self._starts)
        again = CounterMetricFamily(
            "voicewright_runtime_restarts", "Times that it was started again, by why it had ended", labels=["reason"]
        )
        for reason, count in self._restarts.items():
            again.add_metric([reason], count)
        yield again


def starts_page(starts: int, restarts: Mapping[str, int]) -> str:
    """Return the numbers of starts and restarts of the runtime as Prometheus metrics.

    `restarts` has the number of restarts by reason.
    """
    registry = CollectorRegistry()
    registry.register(_Starts(starts, restarts))
    return generate_latest(registry).decode()


def quantile(buckets: dict[float, float], share: float) -> float | None:
    """Return a quantile of a cumulative histogram, or None if the histogram is empty.

    The quantile is interpolated linearly within its bucket.

    Args:
        buckets: Cumulative counts by upper bound of the bucket.
        share: Quantile to return, from 0 to 1.
    """
    edges = sorted(buckets)
    if not edges or buckets[edges[-1]] == 0:
        return None
    wanted = share * buckets[edges[-1]]
    below, low = 0.0, 0.0
    for edge in edges:
        if buckets[edge] >= wanted:
            if edge == float("inf"):
                return low  # The last bucket has no upper bound.
            inside = buckets[edge] - below
            return low + (edge - low) * (wanted - below) / inside if inside else edge
        below, low = buckets[edge], edge
    return low
