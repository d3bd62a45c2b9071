"""Client-side metrics of speech requests: TTFA, ITL, RTF, goodput and underruns.

Times are nanoseconds of `time.perf_counter_ns`, which all processes of a machine share on Linux.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any

from runtime.request import SAMPLE_RATE, StopReason

BYTES_PER_S = 2 * SAMPLE_RATE
GOOD_BUFFER_S = 0.1  # Playback buffer in seconds that `is_continuous` assumes for each client.


class RequestOutcome(StrEnum):
    """Result of one request, such as success, refusal or failure."""

    DONE = "done"
    CANCELLED = "cancelled"
    REFUSED = "refused"  # Refusal by an overloaded server, which is not an error.
    FAILED = "failed"


@dataclass(slots=True)
class RequestTrace:
    """Times and results of one speech request, measured by the client.

    `chunks` are pairs of arrival time in ns and number of bytes (s16le).
    """

    number: int
    wanted_bytes: int
    manner: str = "whole"
    is_counted: bool = True
    due_ns: int = 0  # Scheduled time of the request in an open loop, or 0 in a closed loop.
    sent_ns: int = 0  # Time just before the first byte of the request was sent.
    text_ns: int = 0  # Time at which the last text was sent.
    end_ns: int = 0
    chunks: list[tuple[int, int]] = field(default_factory=list)
    outcome: RequestOutcome = RequestOutcome.FAILED
    code: str = ""  # Error code, or an empty string if there was no error.
    stop: str = ""  # Reason why the speech ended, such as eos, or an empty string.
    queue_ms: float = 0.0  # Time in the server's queue, as reported by the server.
    digest: str = ""  # Hash of the audio if the client computes a hash.

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.chunks)

    @property
    def audio_s(self) -> float:
        return self.bytes / BYTES_PER_S

    @property
    def ttfa_ms(self) -> float | None:
        """Return the time in ms from the request to the first audio chunk, or None without audio."""
        return (self.chunks[0][0] - self.sent_ns) / 1e6 if self.chunks else None

    @property
    def total_ms(self) -> float:
        return (self.end_ns - self.sent_ns) / 1e6

    @property
    def is_good(self) -> bool:
        """True if the response is complete, or if the client has cancelled it.

        A complete response has the requested length or ended with EOS.
        """
        if self.outcome is not RequestOutcome.DONE:
            return self.outcome is RequestOutcome.CANCELLED
        has_ended = self.stop == StopReason.EOS and 0 < self.bytes < self.wanted_bytes
        return has_ended or self.bytes == self.wanted_bytes

    @property
    def playback(self) -> SimulatedPlayer:
        return simulate_playback(self.chunks)


@dataclass(frozen=True, slots=True)
class SimulatedPlayer:
    """Result of a simulated playback that starts when the first audio chunk arrives.

    Attributes:
        underruns: Number of chunks that arrived when the player's buffer was empty.
        deficit_s: Delay of the playback in seconds that would avoid all underruns.
    """

    underruns: int
    deficit_s: float


def simulate_playback(chunks: Sequence[tuple[int, int]]) -> SimulatedPlayer:
    """Simulate the playback of audio chunks, and return the number and the size of the gaps.

    `chunks` are pairs of arrival time in ns and number of bytes (s16le).
    """
    if not chunks:
        return SimulatedPlayer(0, 0.0)
    began = chunks[0][0] / 1e9
    dry = began  # Time at which the player's buffer will be empty.
    played_s, underruns, deficit = 0.0, 0, 0.0
    for arrival_ns, size in chunks:
        arrival, length = arrival_ns / 1e9, size / BYTES_PER_S
        underruns += arrival > dry
        deficit = max(deficit, arrival - began - played_s)
        dry = max(dry, arrival) + length
        played_s += length
    return SimulatedPlayer(underruns, deficit)


def percentile(values: Iterable[float], share: float) -> float | None:
    """Return the nearest-rank percentile, or None if there are no values.

    Args:
        share: Percentile to return, from 0 to 1.
    """
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)] if ranked else None


def percentiles(name: str, values: Sequence[float], *shares: int, digits: int = 2) -> dict[str, Any]:
    """Return percentiles of the values as a dictionary of table columns.

    Args:
        name: Name of the measured value. The keys have the form `{name}_p{share}_ms`.
        values: Measured values in milliseconds.
        shares: Percentiles to return, such as 50 and 95.
        digits: Number of decimal places.
    """
    return {f"{name}_p{share}_ms": round_or_none(percentile(values, share / 100), digits) for share in shares}


def round_or_none(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def peak_in_flight(traces: Iterable[RequestTrace]) -> int:
    """Return the maximum number of requests that were running at the same time."""
    moments = sorted([(t.sent_ns, 1) for t in traces] + [(t.end_ns, -1) for t in traces])
    now = peak = 0
    for _, step in moments:
        now += step
        peak = max(peak, now)
    return peak


def window_ns(traces: Sequence[RequestTrace]) -> tuple[int, int]:
    """Return the start and the end of the measurement window in ns.

    Counted requests are those after the warm-up whose client behaves normally. The window starts when the first counted
    request is sent, and ends when the last counted request is sent. If all requests start together, the window ends
    with the last response.
    """
    counted = [t for t in traces if t.is_counted] or traces
    start, stop = min(t.sent_ns for t in counted), max(t.sent_ns for t in counted)
    if sum(t.sent_ns == start for t in counted) == len(counted) or stop - start < 1e6:
        stop = max(t.end_ns for t in counted)
    return start, stop


def audio_rate(traces: Sequence[RequestTrace]) -> float:
    """Return the throughput of all clients together, in seconds of audio per second."""
    start, stop = window_ns(traces)
    arrived = sum(size for t in traces for at, size in t.chunks if start <= at <= stop)
    return arrived / BYTES_PER_S / ((stop - start) / 1e9)


def reply_rate(traces: Sequence[RequestTrace], counts: Callable[[RequestTrace], bool] = lambda trace: True) -> float:
    """Return the number of responses per second during the measurement window.

    Only responses for which the function `counts` returns True are included.
    """
    start, stop = window_ns(traces)
    return sum(start <= t.end_ns <= stop and counts(t) for t in traces) / ((stop - start) / 1e9)


def is_continuous(trace: RequestTrace) -> bool:
    """Return True if the response is complete and a player would have no gap in the audio.

    The simulated player has a buffer of 100 ms.
    """
    return trace.outcome is RequestOutcome.DONE and trace.is_good and trace.playback.deficit_s <= GOOD_BUFFER_S


def summarize_runs(*runs: Sequence[RequestTrace]) -> dict[str, Any]:
    """Return one table row with the metrics of several runs of the same load plan.

    Percentiles are computed over the requests of all runs, and rates are averaged over the runs. Times and lengths come
    from successful counted requests, which exclude the warm-up and clients that cancel or read slowly. Failures and
    refusals come from all requests.
    """
    traces = [trace for run in runs for trace in run]
    counted = [t for t in traces if t.is_counted]
    good = [t for t in counted if t.outcome is RequestOutcome.DONE and t.is_good]
    plays = [t.playback for t in good]
    gaps = [(after - before) / 1e6 for t in good for (before, _), (after, _) in pairwise(t.chunks)]
    late = [(t.sent_ns - t.due_ns) / 1e6 for t in counted if t.due_ns]
    row: dict[str, Any] = {
        "calls": len(counted),
        "failed": sum(not t.is_good and t.outcome is not RequestOutcome.REFUSED for t in traces),
        "refused": sum(t.outcome is RequestOutcome.REFUSED for t in traces),
        **percentiles("ttfa", [t.ttfa_ms for t in good if t.ttfa_ms is not None], 50, 95, 99),
        **percentiles("itl", gaps, 50, 99, digits=1),
        **percentiles("e2e", [t.total_ms for t in good], 50, 95, digits=1),
        "rtf_p50": round_or_none(percentile([t.total_ms / 1000 / t.audio_s for t in good], 0.5), 4),
        "underruns": sum(play.underruns for play in plays),
        "max_deficit_ms": round_or_none(max((1000 * play.deficit_s for play in plays), default=None), 1),
        "rps": round(sum(reply_rate(run) for run in runs) / len(runs), 2),
        "goodput_rps": round(sum(reply_rate(run, is_continuous) for run in runs) / len(runs), 2),
        "audio_s_per_s": round(sum(audio_rate(run) for run in runs) / len(runs), 2),
        "peak_in_flight": max(peak_in_flight(run) for run in runs),
    }
    if late:
        row |= percentiles("sent_late", late, 95)
    if written := [(t.end_ns - t.text_ns) / 1e6 for t in good if t.text_ns > t.sent_ns]:
        row |= percentiles("last_text_to_end", written, 50, digits=1)
    if errors := sorted({t.code for t in traces if t.code}):
        row["errors"] = " ".join(errors)
    return row
