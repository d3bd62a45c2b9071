"""Results of a soak: metrics, broken promises, and a picture over the minutes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.common.metrics import Outcome, Trace, percentile, percentiles, rounded
from benchmarks.serve.clients import AUDIO_AFTER_CANCEL

MAX_SLOWDOWN = 2.0  # TTFA without the queue may be this many times the TTFA without load.
WIDTH, HEIGHT, GAP, LEFT, RIGHT = 720, 110, 34, 70, 16
LINE, INK = "#2f6f8f", "#666"


@dataclass(slots=True)
class SoakReport:
    """Results of all clients, and samples of the runtime over time."""

    minutes: float = 0.0
    slots: int = 0
    clients: int = 0
    replies: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)
    audio_after_cancel: int = 0
    stalls: int = 0
    unloaded_ttfa_ms: list[float] = field(default_factory=list)
    ttfa_ms: list[float] = field(default_factory=list)
    begun_ms: list[float] = field(default_factory=list)  # TTFA without the queue.
    refusal_ms: list[float] = field(default_factory=list)
    underruns: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)
    loop_lag_ms: dict[str, float] = field(default_factory=dict)
    leaked_slots: int = -1

    def note_error(self, trace: Trace) -> None:
        """Count a refused or failed call."""
        self.audio_after_cancel += trace.code == AUDIO_AFTER_CANCEL
        self.stalls += trace.code == "timeout"
        if trace.outcome is Outcome.REFUSED:
            self.refusal_ms.append(trace.total_ms)

    def summary(self) -> dict[str, Any]:
        """Return all metrics. The slope of memory is taken after the first third, when caches are full."""
        memory = [sample["rss_mib"] for sample in self.samples if "rss_mib" in sample]
        tail = memory[len(memory) // 3 :]
        growth_kib = 1024 * (tail[-1] - tail[0]) if tail else None
        threads = [sample["threads"] for sample in self.samples if "threads" in sample]
        return {
            **{"minutes": round(self.minutes, 1), "slots": self.slots, "clients": self.clients},
            **{"replies": dict(self.replies), "refused": dict(self.refused)},
            "streams_unlike_their_solo_run": len(self.different),
            "audio_after_cancel": self.audio_after_cancel,
            **{"stalls": self.stalls, "leaked_slots": self.leaked_slots, "underruns": self.underruns},
            **percentiles("ttfa_unloaded", self.unloaded_ttfa_ms, 50, 95, digits=1),
            **percentiles("ttfa", self.ttfa_ms, 50, 95, digits=1),
            **percentiles("ttfa_without_queue", self.begun_ms, 50, 95, digits=1),
            **percentiles("refusal", self.refusal_ms, 50, 95, digits=1),
            "rss_mib_third_to_end": [round(tail[0]), round(tail[-1])] if tail else [],
            "rss_kib_per_1000_replies": rounded(
                None if growth_kib is None else 1000 * growth_kib / max(1, self.replies.total() * 2 / 3), 1
            ),
            "threads_min_max": [min(threads), max(threads)] if threads else [],
            "files_end": self.samples[-1].get("files") if self.samples else None,
            "loop_lag_ms_below": self.loop_lag_ms,
        }

    def broken(self) -> list[str]:
        """Return the promises that were not kept."""
        loaded, unloaded = percentile(self.begun_ms, 0.5), percentile(self.unloaded_ttfa_ms, 0.5)
        checks = {
            "a stream was not its solo run": bool(self.different),
            "audio came after a cancel": self.audio_after_cancel > 0,
            "a reply hung": self.stalls > 0,
            "slots leaked": self.leaked_slots != 0,
            f"TTFA under load is more than {MAX_SLOWDOWN:g} times the unloaded": loaded is not None
            and unloaded is not None
            and loaded > MAX_SLOWDOWN * unloaded,
        }
        return [what for what, is_broken in checks.items() if is_broken]

    def picture(self) -> str:
        """Return memory, slots and TTFA over the minutes as SVG."""
        names = {"rss_mib": "Memory, MiB", "active": f"Slots in use, of {self.slots}", "ttfa_p99_ms": "TTFA, p99, ms"}
        minutes = [sample["minute"] for sample in self.samples]
        panels = [(name, [sample.get(key) for sample in self.samples]) for key, name in names.items()]
        return svg("A soak", minutes, panels)


def lag_bounds(page: str) -> dict[str, float]:
    """Return the bounds in ms below which 99.9 % and all lags of the event loop were, from the runtime's /metrics."""
    name = 'voicewright_loop_lag_seconds_bucket{le="'
    counts = {
        float(bound): float(count)
        for bound, count in (line[len(name) :].split('"} ') for line in page.splitlines() if line.startswith(name))
    }
    total = max(counts.values(), default=0.0)
    return {
        share: 1000 * min(bound for bound, count in counts.items() if count >= part * total)
        for share, part in (("99.9 %", 0.999), ("all", 1.0))
        if counts
    }


def svg(title: str, minutes: Sequence[float], panels: Sequence[tuple[str, Sequence[float | None]]]) -> str:
    """Return a picture with one panel for each series. A panel begins at 0 and names its largest value."""
    last, wide = max(minutes, default=0.0) or 1.0, WIDTH - LEFT - RIGHT
    total = GAP + len(panels) * (HEIGHT + GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {total}" font-family="sans-serif" '
        f'font-size="12" fill="{INK}">',
        f"<title>{title}</title>",
    ]
    for number, (name, values) in enumerate(panels):
        top = GAP + number * (HEIGHT + GAP)
        bottom = top + HEIGHT
        largest = max((value for value in values if value is not None), default=0.0) or 1.0
        points = " ".join(
            f"{LEFT + wide * minute / last:.1f},{bottom - HEIGHT * value / largest:.1f}"
            for minute, value in zip(minutes, values, strict=True)
            if value is not None
        )
        lines += [
            f'<text x="{LEFT}" y="{top - 8}">{name}</text>',
            f'<text x="{LEFT - 6}" y="{top + 10}" text-anchor="end">{largest:.0f}</text>',
            f'<text x="{LEFT - 6}" y="{bottom}" text-anchor="end">0</text>',
            f'<path d="M{LEFT} {top}V{bottom}H{WIDTH - RIGHT}" fill="none" stroke="{INK}"/>',
            f'<polyline points="{points}" fill="none" stroke="{LINE}" stroke-width="1.5"/>',
        ]
    end = f'<text x="{WIDTH - RIGHT}" y="{total - 8}" text-anchor="end">{last:.0f} minutes</text>'
    return "\n".join([*lines, end, "</svg>\n"])
