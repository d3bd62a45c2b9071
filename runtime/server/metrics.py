"""Prometheus metrics. Thread: event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from runtime.request import Broken, EngineLoad, Finished
from runtime.server.logs import RequestLog

CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30)
_RATIOS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 4)
_LAGS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1)
_LAG_EVERY_S = 0.5
_LABELS = ("mode", "dialect")


class ServerMetrics:
    """Metrics of one host. They have their own registry, because a process may have several hosts."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)

        def counter(name: str, about: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"voicewright_{name}", about, labels, registry=registry)

        def gauge(name: str, about: str, labels: tuple[str, ...] = ()) -> Gauge:
            return Gauge(f"voicewright_{name}", about, labels, registry=registry)

        def histogram(name: str, about: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"voicewright_{name}", about, labels, buckets=buckets, registry=registry)

        self._requests = counter("requests", "Requests that ended, by stop reason or error code", (*_LABELS, "outcome"))
        self._refusals = counter("refusals", "What was refused before it became a request", ("code",))
        self._guard_hits = counter("guard_hits", "Runaways that were stopped", ("kind",))
        self._audio_s = counter("audio_seconds", "Seconds of sound that were made", _LABELS)
        self._underruns = counter("underruns", "Chunks that came too late for a listener without a buffer", _LABELS)
        self._ttfa_s = histogram("ttfa_seconds", "Submission to first sound", _LABELS, _SECONDS)
        self._queue_s = histogram("queue_seconds", "Submission to slot", _LABELS, _SECONDS)
        self._rtf = histogram("rtf", "Compute time over audio time", _LABELS, _RATIOS)
        self._sessions = gauge("sessions", "Open WebSocket sessions", ("dialect",))
        self._slots = gauge("slots", "Requests that can speak at the same time")
        self._active = gauge("active", "Requests that hold a slot")
        self._waiting = gauge("waiting", "Requests that wait for a slot")
        self._waiting_for_text = gauge("waiting_for_text", "Requests that wait for their client's text")
        self._short_of_text = gauge("short_of_text", "Former name of waiting_for_text")
        self._frames = counter("frames", "Codec frames whose sound was made, of running requests too")
        self._uncaptured = counter("uncaptured", "Calls of Code2Wav that found no graph, though graphs are held")
        self._memory = gauge("memory_bytes", "The device's memory", ("kind",))
        self._canaries = counter("canaries", "Checks of the idle engine that came to an end", ("outcome",))
        self._totals = {self._frames: 0, self._uncaptured: 0}  # Values that the engine last reported.
        self._lag_s = histogram("loop_lag_seconds", "How late the event loop runs what is due", (), _LAGS)

    def ended(self, request_log: RequestLog, event: Finished | Broken) -> None:
        """Count the end of a request."""
        stats, labels = event.stats, (request_log.mode.value, request_log.dialect)
        outcome = event.error.code if isinstance(event, Broken) else event.stop_reason.value
        self._requests.labels(*labels, outcome).inc()
        self._audio_s.labels(*labels).inc(stats.audio_s)
        self._underruns.labels(*labels).inc(stats.underruns)
        self._queue_s.labels(*labels).observe(stats.queue_ms / 1000)
        if stats.ttfa_ms is not None:
            self._ttfa_s.labels(*labels).observe(stats.ttfa_ms / 1000)
        if stats.rtf is not None:
            self._rtf.labels(*labels).observe(stats.rtf)
        if stats.guard is not None:
            self._guard_hits.labels(stats.guard.value).inc()

    def refused(self, code: str) -> None:
        """Count a refused request by the code of its error."""
        self._refusals.labels(code).inc()

    def canary(self, outcome: str) -> None:
        """Count a canary result."""
        self._canaries.labels(outcome).inc()

    @contextmanager
    def session(self, dialect: str) -> Iterator[None]:
        """Context manager that counts an open session."""
        gauge = self._sessions.labels(dialect)
        gauge.inc()
        try:
            yield
        finally:
            gauge.dec()

    async def watch_lag(self) -> None:
        """Measure the event loop's lag until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due, reached = loop.time() + _LAG_EVERY_S, asyncio.Event()
            loop.call_at(due, reached.set)
            await reached.wait()
            self._lag_s.observe(max(0.0, loop.time() - due))

    def page(self, load: EngineLoad | None) -> bytes:
        """Return all metrics in Prometheus' format; `load` is the engine's current load, or None without an engine."""
        if load is not None:
            self._slots.set(load.slots)
            self._active.set(load.active)
            self._waiting.set(load.waiting)
            self._waiting_for_text.set(load.waiting_for_text)
            self._short_of_text.set(load.waiting_for_text)
            self._memory.labels("free").set(load.free_bytes)
            self._memory.labels("total").set(load.total_bytes)
            self._catch_up(self._frames, load.frames)
            self._catch_up(self._uncaptured, load.uncaptured)
        return generate_latest(self._registry)

    def _catch_up(self, counter: Counter, total: int) -> None:
        """Advance a counter to the engine's total."""
        counter.inc(max(0, total - self._totals[counter]))
        self._totals[counter] = total
