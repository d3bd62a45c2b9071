"""What was heard, as it arrived, and the figures that follow from it: first PCM, underruns, rates, percentiles.

Times are nanoseconds of one process's `time.perf_counter_ns`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from runtime.request import SAMPLE_RATE, StopReason

BYTES_PER_S = 2 * SAMPLE_RATE
CONTINUOUS_S = 0.1  # a buffer that a listener may be expected to have


class Outcome(StrEnum):
    """How a call ended."""

    DONE = "done"
    CANCELLED = "cancelled"
    REFUSED = "refused"  # no room: the answer of an overloaded server that is well
    FAILED = "failed"


@dataclass(slots=True)
class Trace:
    """One call as its client saw it. ``chunks``: arrival in ns, and bytes of s16le."""

    number: int
    wanted_bytes: int
    manner: str = "whole"
    is_counted: bool = True
    due_ns: int = 0  # when it was to be sent; 0: as soon as a client was free
    sent_ns: int = 0  # the last moment before its first byte
    text_ns: int = 0  # when the last of its text was sent
    end_ns: int = 0
    chunks: list[tuple[int, int]] = field(default_factory=list)
    silences: list[tuple[int, int]] = field(default_factory=list)  # of its text: from, to, in ns
    sentences: list[tuple[int, int]] = field(default_factory=list)  # as they were written: from, to, in ns
    outcome: Outcome = Outcome.FAILED
    code: str = ""  # of the error
    stop: str = ""  # why its frames ended

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.chunks)

    @property
    def audio_s(self) -> float:
        return self.bytes / BYTES_PER_S

    @property
    def first_pcm_ms(self) -> float | None:
        """From the request to the first complete sample."""
        return (self.chunks[0][0] - self.sent_ns) / 1e6 if self.chunks else None

    @property
    def total_ms(self) -> float:
        return (self.end_ns - self.sent_ns) / 1e6

    @property
    def is_good(self) -> bool:
        """Nothing went wrong: whole, and as long as asked for or as the voice itself took; or stopped by its client."""
        if self.outcome is not Outcome.DONE:
            return self.outcome is Outcome.CANCELLED
        ended_itself = self.stop == StopReason.EOS and 0 < self.bytes < self.wanted_bytes
        return ended_itself or self.bytes == self.wanted_bytes


@dataclass(frozen=True, slots=True)
class SimulatedPlayer:
    """A player without a buffer that begins with the first chunk.

    ``underruns``: chunks that came after the player had run dry (it waits, and plays on from there), but for those
    that a silence of the text itself has kept waiting.
    ``unwritten``: of these, those before which a sentence was still being written when the player ran dry: a voice
    that speaks whole sentences only has nothing to say then.
    ``deficit_s``: the buffer that would have been needed for none of them.
    """

    underruns: int
    deficit_s: float
    unwritten: int = 0


def playback(
    chunks: Sequence[tuple[int, int]],
    silences: Sequence[tuple[int, int]] = (),
    sentences: Sequence[tuple[int, int]] = (),
) -> SimulatedPlayer:
    """Play what arrived. Shapes: chunks of (arrival in ns, bytes), in order; the text's times of (from, to) in ns."""
    if not chunks:
        return SimulatedPlayer(0, 0.0)
    began = chunks[0][0] / 1e9
    dry = began  # when the player has nothing left
    heard, underruns, unwritten, deficit = 0.0, 0, 0, 0.0
    for arrival_ns, size in chunks:
        arrival, length = arrival_ns / 1e9, size / BYTES_PER_S
        of_its_text = any(start / 1e9 <= arrival and dry <= end / 1e9 for start, end in silences)
        is_late = arrival > dry and not of_its_text
        underruns += is_late
        unwritten += is_late and any(start / 1e9 <= dry <= end / 1e9 for start, end in sentences)
        deficit = max(deficit, arrival - began - heard)
        dry = max(dry, arrival) + length
        heard += length
    return SimulatedPlayer(underruns, deficit, unwritten)


def nearest_rank(values: Iterable[float], share: float) -> float | None:
    """The smallest value that so large a share of all does not exceed; None without values."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)] if ranked else None


def peak_in_flight(traces: Iterable[Trace]) -> int:
    """The most calls that were under way at one moment."""
    moments = sorted([(t.sent_ns, 1) for t in traces] + [(t.end_ns, -1) for t in traces])
    now = peak = 0
    for _, step in moments:
        now += step
        peak = max(peak, now)
    return peak


def window_ns(traces: Sequence[Trace]) -> tuple[int, int]:
    """From the first request that counts to the last: warming up and filling before it and emptying after are no load.

    Where these are one, until the last has ended; where none counts, of all.
    """
    counted = [t for t in traces if t.is_counted] or traces
    start, stop = min(t.sent_ns for t in counted), max(t.sent_ns for t in counted)
    if sum(t.sent_ns == start for t in counted) == len(counted) or stop - start < 1e6:
        stop = max(t.end_ns for t in counted)
    return start, stop


def audio_rate(traces: Sequence[Trace]) -> float:
    """Seconds of audio that came a second, to all clients together."""
    start, stop = window_ns(traces)
    arrived = sum(size for t in traces for at, size in t.chunks if start <= at <= stop)
    return arrived / BYTES_PER_S / ((stop - start) / 1e9)


def reply_rate(traces: Sequence[Trace]) -> float:
    """Replies that ended a second."""
    start, stop = window_ns(traces)
    return sum(start <= t.end_ns <= stop for t in traces) / ((stop - start) / 1e9)


def summary(*runs: Sequence[Trace]) -> dict[str, Any]:
    """One row of a table over all runs of the same plan: times pooled, rates as the mean of the runs.

    Times and lengths are those of counted calls that ended well; failures and refusals are counted in all calls.
    """
    traces = [trace for run in runs for trace in run]
    counted = [t for t in traces if t.is_counted]
    good = [t for t in counted if t.outcome is Outcome.DONE and t.is_good]
    plays = [playback(t.chunks, t.silences, t.sentences) for t in good]
    firsts = [t.first_pcm_ms for t in good if t.first_pcm_ms is not None]
    late = [(t.sent_ns - t.due_ns) / 1e6 for t in counted if t.due_ns]
    row: dict[str, Any] = {
        "calls": len(counted),
        "failed": sum(not t.is_good and t.outcome is not Outcome.REFUSED for t in traces),
        "refused": sum(t.outcome is Outcome.REFUSED for t in traces),
        **{f"first_pcm_p{p}_ms": rounded(nearest_rank(firsts, p / 100), 2) for p in (50, 95, 99)},
        **{f"e2e_p{p}_ms": rounded(nearest_rank([t.total_ms for t in good], p / 100), 1) for p in (50, 95)},
        "rtf_p50": rounded(nearest_rank([t.total_ms / 1000 / t.audio_s for t in good], 0.5), 4),
        "underruns": sum(play.underruns for play in plays),
        "worst_deficit_ms": rounded(max((1000 * play.deficit_s for play in plays), default=None), 1),
        "continuous": rounded(sum(p.deficit_s <= CONTINUOUS_S for p in plays) / len(plays), 4) if plays else None,
        "req_per_s": round(sum(reply_rate(run) for run in runs) / len(runs), 2),
        "audio_s_per_s": round(sum(audio_rate(run) for run in runs) / len(runs), 2),
        "peak_in_flight": max(peak_in_flight(run) for run in runs),
    }
    if late:
        row["sent_late_p95_ms"] = rounded(nearest_rank(late, 0.95), 2)
    if any(t.sentences for t in good):
        row["of_unwritten_sentences"] = sum(play.unwritten for play in plays)
    if errors := sorted({t.code for t in traces if t.code}):
        row["errors"] = " ".join(errors)
    return row


def rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
