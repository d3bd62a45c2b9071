"""Measurement of one or more runtimes at several loads.

Several runtimes are measured twice at each load, in the order A B B A. A change in the machine's speed then affects all
of them equally.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from benchmarks.common.metrics import RequestTrace, percentile, round_or_none, summarize_runs
from benchmarks.common.report import Row, log_step
from benchmarks.serve.plan import Plan, Rounds, Workload, closed_loop, open_loop
from benchmarks.serve.targets import Target

DEFAULT_ROUNDS = Rounds()
WARM_UP_MINUTES = 3  # Minutes in which caches fill. They are excluded from slopes.
WRONG = ("failed", "refused", "underruns", "leaked_slots")


async def measure_closed(
    targets: Sequence[Target],
    loads: Sequence[Workload],
    clients: Sequence[int],
    calls: int,
    rounds: Rounds = DEFAULT_ROUNDS,
) -> list[Row]:
    """Measure closed loops, with at least `calls` counted requests at each load.

    `clients` has the numbers of concurrent clients. The runtime caches voices. Therefore, no reference recording occurs
    twice, not even in the second measurement of a comparison.
    """
    rows, number = [], 0
    for load in loads:
        for count in clients:
            passes = []
            for _ in range(2 if _are_compared(targets) else 1):
                start = number if load.voices else 0
                passes.append(closed_loop(load, count, rounds.with_calls(calls, count), start))
                number += len(passes[-1].calls)
            rows += await measure(targets, passes, {**_about(load), "clients": count})
    return rows


async def measure_open(
    targets: Sequence[Target], loads: Sequence[Workload], rates: Sequence[float], seconds: float
) -> list[Row]:
    """Measure Poisson arrivals at each rate (requests per second) for `seconds` seconds.

    The measurement starts after a warm-up, which takes a sixth of `seconds`.
    """
    rows = []
    for load in loads:
        for rate in rates:
            plan = open_loop(load, rate, seconds, seed=0, warm_up_s=seconds / 6)
            rows += await measure(targets, [plan], {**_about(load), "rate": round(rate, 2)})
    return rows


async def measure(targets: Sequence[Target], passes: Sequence[Plan], about: Row) -> list[Row]:
    """Run load plans on all target runtimes, and return one table row per target.

    Args:
        targets: Runtimes to measure.
        passes: Plan of the first measurement, and optionally a different plan of the second measurement.
        about: Columns that describe the load.
    """
    order = [(target, passes[0]) for target in targets]
    if _are_compared(targets):
        order += [(target, passes[-1]) for target in reversed(targets)]
    results: dict[str, list[list[RequestTrace]]] = {target.name: [] for target in targets}
    for target, plan in order:
        log_step(", ".join(f"{name} {value}" for name, value in {"target": target.name, **about}.items()))
        results[target.name].append(await target.drive(plan))
    return [await row_of(target, results[target.name], about) for target in targets]


async def row_of(target: Target, runs: Sequence[Sequence[RequestTrace]], about: Row) -> Row:
    """Return a table row with the metrics of all runs on one target runtime at one load.

    The row includes the number of slots that did not become free.
    """
    row = {"target": target.name, **about, **summarize_runs(*runs)}
    return row | {"leaked_slots": await target.busy()}


async def capacity_rps(target: Target, load: Workload, slots: int) -> float:
    """Measure the capacity of a runtime in responses per second.

    The load is a closed loop with one client per slot.
    """
    results = [await target.drive(closed_loop(load, slots, Rounds(1, 4)))]
    return float((await row_of(target, results, {}))["rps"])


async def measure_minutes(
    target: Target, load: Workload, rate: float, minutes: float, seconds: float, keep: Callable[[list[Row]], None]
) -> list[Row]:
    """Measure Poisson arrivals for many minutes, and return one table row per time window.

    A row includes the memory usage of the server and the GPU. All responses end before the next window starts.

    Args:
        target: Runtime to measure.
        load: Common settings of all requests.
        rate: Requests per second.
        minutes: Total duration.
        seconds: Duration of a window.
        keep: Function that is called with all rows after each window.
    """
    rows: list[Row] = []
    ends = time.monotonic() + 60 * minutes
    while not rows or time.monotonic() < ends:
        result = await target.drive(open_loop(load, rate, seconds, seed=len(rows), warm_up_s=2.0))
        row = await row_of(target, [result], {"minute": round(len(rows) * seconds / 60, 2)})
        rows.append({**row, **target.usage(), **gpu_memory()})
        log_step(str(rows[-1]))
        keep(rows)
    return rows


def summarize_windows(rows: Sequence[Row]) -> Row:
    """Return a table row that summarizes all windows of a long measurement.

    The row has the numbers of requests and failures, the memory growth in MiB per minute, and the p99 of TTFA. The
    growth is a least-squares fit without the first minutes, in which caches fill. The p99 is the median of the first
    third of the windows, and that of the last third.
    """
    filled = [row for row in rows if row["minute"] >= WARM_UP_MINUTES] or list(rows)
    third = max(1, len(rows) // 3)
    found: Row = {"windows": len(rows), **{name: sum(row[name] for row in rows) for name in ("calls", *WRONG)}}
    for name in ("rss_mib", "card_mib"):
        if len(filled) > 1 and all(name in row for row in filled):
            at = [float(row["minute"]) for row in filled]
            slope = statistics.linear_regression(at, [float(row[name]) for row in filled]).slope
            found[f"{name}_a_minute"] = round(slope, 3)
    for name, part in (("first", rows[:third]), ("last", rows[-third:])):
        values_ms = [float(row["ttfa_p99_ms"]) for row in part if row["ttfa_p99_ms"] is not None]
        found[f"ttfa_p99_{name}_third_ms"] = round_or_none(percentile(values_ms, 0.5), 2)
    return found


def gpu_memory() -> Row:
    """Return the used memory of the GPU in MiB, or an empty row without a GPU."""
    import torch

    if not torch.accelerator.is_available():
        return {}
    free, total = torch.get_device_module(torch.accelerator.current_accelerator()).mem_get_info()
    return {"card_mib": round((total - free) / 2**20, 1)}


def _about(load: Workload) -> Row:
    about: Row = {"mode": str(load.mode), "dataset": str(load.dataset), "text": str(load.manner)}
    if load.voices:
        about["voices"] = str(load.voices)
    return about


def _are_compared(targets: Sequence[Target]) -> bool:
    """True if the targets are several variants or servers."""
    return len(targets) > 1
