"""Prometheus metrics of the runtime server.

Thread: event loop.
"""

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
    """Prometheus metrics of one runtime server, in a separate registry."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)

        def counter(name: str, about: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"voicewright_{name}", about, labels, registry=registry)

        def gauge(name: str, about: str, labels: tuple[str, ...] = ()) -> Gauge:
            return Gauge(f"voicewright_{name}", about, labels, registry=registry)

        def histogram(name: str, about: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"voicewright_{name}", about, labels, buckets=buckets, registry=registry)

        self._requests = counter("requests", "Completed requests by stop reason or error code", (*_LABELS, "outcome"))
        self._refusals = counter("refusals", "Refused requests by error code", ("code",))
        self._guard_hits = counter("guard_hits", "Utterances stopped by a runaway guard", ("kind",))
        self._audio_s = counter("audio_seconds", "Seconds of generated audio", _LABELS)
        self._underruns = counter("underruns", "Audio chunks too late for a listener without a buffer", _LABELS)
        self._ttfa_s = histogram("ttfa_seconds", "Time from submission to first audio", _LABELS, _SECONDS)
        self._queue_s = histogram("queue_seconds", "Time from submission to a slot", _LABELS, _SECONDS)
        self._rtf = histogram("rtf", "Real-time factor: compute time divided by audio duration", _LABELS, _RATIOS)
        self._sessions = gauge("sessions", "Open WebSocket sessions", ("dialect",))
        self._slots = gauge("slots", "Maximum number of concurrent requests")
        self._active = gauge("active", "Requests in a slot")
        self._waiting = gauge("waiting", "Requests waiting for a slot")
        self._waiting_for_text = gauge("waiting_for_text", "Requests waiting for more text from the client")
        self._short_of_text = gauge("short_of_text", "Deprecated: use waiting_for_text")
        self._frames = counter("frames", "Decoded codec frames, including those of running requests")
        self._uncaptured = counter("uncaptured", "Code2Wav calls without a captured graph, on a device with graphs")
        self._memory = gauge("memory_bytes", "Device memory in bytes", ("kind",))
        self._canaries = counter("canaries", "Completed checks of the idle engine by outcome", ("outcome",))
        # Total numbers of frames and of uncaptured calls in the last report of the engine.
        self._totals = {self._frames: 0, self._uncaptured: 0}
        self._lag_s = histogram("loop_lag_seconds", "Delay of event loop callbacks", (), _LAGS)

    def record_ended_request(self, request_log: RequestLog, event: Finished | Broken) -> None:
        """Record the outcome and the statistics of an ended request."""
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

    def count_refusal(self, code: str) -> None:
        """Count a refused request by its error code."""
        self._refusals.labels(code).inc()

    def count_canary_run(self, outcome: str) -> None:
        """Count a canary run by its outcome."""
        self._canaries.labels(outcome).inc()

    @contextmanager
    def count_open_session(self, dialect: str) -> Iterator[None]:
        """Count a WebSocket session as open inside the `with` block."""
        gauge = self._sessions.labels(dialect)
        gauge.inc()
        try:
            yield
        finally:
            gauge.dec()

    async def watch_lag(self) -> None:
        """Measure the lag of the event loop every 0.5 s until the task is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due, reached = loop.time() + _LAG_EVERY_S, asyncio.Event()
            loop.call_at(due, reached.set)
            await reached.wait()
            self._lag_s.observe(max(0.0, loop.time() - due))

    def format_page(self, load: EngineLoad | None) -> bytes:
        """Return all metrics in the Prometheus text format.

        Args:
            load: Current load of the engine, or None if no engine is running.
        """
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
        """Increase a counter to the total that the engine has reported."""
        counter.inc(max(0, total - self._totals[counter]))
        self._totals[counter] = total
