"""What a soak has seen: its figures, what of the promises was broken, and the picture over the minutes."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.curve import Panel, svg


@dataclass(slots=True)
class Report:
    """What happened."""

    minutes: float = 0.0
    slots: int = 0
    clients: int = 0
    replies: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)
    after_cancel: int = 0
    stalls: int = 0
    unloaded_ttfa_ms: list[float] = field(default_factory=list)
    ttfa_ms: list[float] = field(default_factory=list)  # of well-behaved clients, request sent to first sound
    begun_ms: list[float] = field(default_factory=list)  # the same without the wait for a slot
    refusal_ms: list[float] = field(default_factory=list)
    underruns: int = 0
    rss_mib: list[float] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    sampled_min: list[float] = field(default_factory=list)  # when the figures of the process were taken
    slots_in_use: list[int] = field(default_factory=list)
    ttfa_p99_ms: list[float | None] = field(default_factory=list)  # of the minute before the sample
    loop_lag_ms: dict[str, float] = field(default_factory=dict)  # bounds that the runtime's own histogram gives
    leaked_slots: int = -1

    def summary(self) -> dict[str, Any]:
        tail = self.rss_mib[len(self.rss_mib) // 3 :]  # caches have filled by then
        return {
            "minutes": round(self.minutes, 1),
            "slots": self.slots,
            "clients": self.clients,
            "replies": dict(self.replies),
            "refused": dict(self.refused),
            "streams_unlike_their_solo_run": len(self.different),
            "sound_after_cancel": self.after_cancel,
            "stalls": self.stalls,
            "leaked_slots": self.leaked_slots,
            "ttfa_unloaded_p50_p95_ms": _quantiles(self.unloaded_ttfa_ms),
            "ttfa_p50_p95_ms": _quantiles(self.ttfa_ms),
            "ttfa_without_queue_p50_p95_ms": _quantiles(self.begun_ms),
            "refusal_p50_p95_ms": _quantiles(self.refusal_ms),
            "underruns": self.underruns,
            "rss_mib_third_to_end": [round(tail[0]), round(tail[-1])] if tail else [],
            "rss_slope_kib_per_1000_replies": round(
                1024 * 1000 * (tail[-1] - tail[0]) / max(1, self.replies.total() * 2 / 3), 1
            )
            if tail
            else None,
            "threads_min_max": [min(self.threads), max(self.threads)] if self.threads else [],
            "files_end": self.files[-1] if self.files else None,
            "loop_lag_ms_below": self.loop_lag_ms,
        }

    @property
    def picture(self) -> str:
        """Memory, slots and TTFA over the minutes, as SVG."""
        figures: dict[str, Sequence[float | None]] = {
            "Memory, MiB": self.rss_mib,
            f"Slots in use, of {self.slots}": self.slots_in_use,
            "TTFA of the polite, p99, ms": self.ttfa_p99_ms,
        }
        minutes = self.sampled_min
        return svg("A soak", [Panel(name, list(zip(minutes, each, strict=True))) for name, each in figures.items()])

    @property
    def broken(self) -> list[str]:
        """Promises that were not kept."""
        loaded, unloaded = self.begun_ms, self.unloaded_ttfa_ms
        checks = {
            "a stream was not its solo run": bool(self.different),
            "sound came after a cancel": self.after_cancel > 0,
            "a reply hung": self.stalls > 0,
            "slots leaked": self.leaked_slots != 0,
            "TTFA under load is more than twice the unloaded": bool(loaded)
            and statistics.median(loaded) > 2 * statistics.median(unloaded),
        }
        return [what for what, is_broken in checks.items() if is_broken]


def lag_bounds(page: str) -> dict[str, float]:
    """How late the event loop was, ms, of the histogram in a page of metrics: what 99.9 % and all were below."""
    name = 'voicewright_loop_lag_seconds_bucket{le="'
    counts = {
        float(bound): float(count)
        for bound, count in (line[len(name) :].split('"} ') for line in page.splitlines() if line.startswith(name))
    }
    most = max(counts.values(), default=0.0)
    return {
        share: 1000 * min(bound for bound, count in counts.items() if count >= part * most)
        for share, part in (("99.9 %", 0.999), ("all", 1.0))
        if counts
    }


def _quantiles(values: list[float]) -> list[float] | None:
    if not values:
        return None
    values = sorted(values)
    return [round(values[len(values) // 2], 1), round(values[min(len(values) - 1, int(0.95 * len(values)))], 1)]
