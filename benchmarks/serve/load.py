"""Measurements of a load: each point on every target, and rows of the results.

Several arms are measured twice at every point, in the order A B B A, so that a machine that grows warm or busy does so
for all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import httpx

from benchmarks.common.metrics import percentile, percentiles, rounded, summary
from benchmarks.common.report import Row, log_step
from benchmarks.serve.driver import DriveResult
from benchmarks.serve.plan import Manner, Plan, Rounds, Workload, closed_loop, open_loop
from benchmarks.serve.targets import Target
from runtime.settings import Limits

SERVER_MANNERS = (Manner.HALTING, Manner.SILENCE)  # Only a server waits for the end of a pause.
FILLING_MINUTES = 3  # Caches fill in these; no slope is taken of them.
WARM_UP_CALLS = 20
WRONG = ("failed", "refused", "underruns", "leaked_slots")


async def measure_closed(
    targets: Sequence[Target], loads: Sequence[Workload], clients: Sequence[int], calls: int, rounds: Rounds
) -> list[Row]:
    """Return rows of clients that call again when a reply has ended; at least `calls` count at every point.

    With new voices no recording occurs twice, not even in the second pass of a comparison: a runtime still has the
    voices that it has just read.
    """
    rows, number = [], 0
    for load in loads:
        for count in clients:
            passes = []
            for _ in range(2 if _are_compared(targets) else 1):
                start = number if load.voices else 0
                passes.append([closed_loop(load, count, rounds.with_calls(calls, count), start)])
                number += len(passes[-1][0].calls)
            rows += await measure(targets, passes, {**_about(load), "clients": count})
    return rows


async def measure_open(
    targets: Sequence[Target],
    loads: Sequence[Workload],
    rates: Sequence[float],
    seconds: float,
    warm_up_s: float,
    seeds: Sequence[int],
) -> list[Row]:
    """Return rows of Poisson arrivals."""
    rows = []
    for load in loads:
        for rate in rates:
            plans = [open_loop(load, rate, seconds, seed, warm_up_s) for seed in seeds]
            rows += await measure(targets, [plans], {**_about(load), "rate": round(rate, 2)})
    return rows


async def measure(targets: Sequence[Target], passes: Sequence[Sequence[Plan]], about: Row) -> list[Row]:
    """Carry plans out on every target and return a row for each.

    Args:
        passes: the plans of the first pass, and those of the second pass if they differ.
    """
    if passes[0][0].load.manner in SERVER_MANNERS:
        targets = [target for target in targets if target.transport != "engine"]
    order = [(target, passes[0]) for target in targets]
    if _are_compared(targets):
        order += [(target, passes[-1]) for target in reversed(targets)]
    results: dict[str, list[DriveResult]] = {target.name: [] for target in targets}
    for target, plans in order:
        log_step(", ".join(f"{name} {value}" for name, value in {"target": target.name, **about}.items()))
        for plan in plans:
            results[target.name].append(await target.drive(plan))
    return [await row_of(target, results[target.name], about) for target in targets]


async def row_of(target: Target, results: Sequence[DriveResult], about: Row) -> Row:
    """Return the metrics of all results of a point, with slots that did not become free."""
    row = {"target": target.name, **about, **summary(*(result.traces for result in results))}
    row["leaked_slots"] = await target.endpoint.busy()
    for name in ("client_cpu", "client_stall_ms"):
        values = [value for result in results if (value := getattr(result, name)) is not None]
        row |= {name: max(values)} if values else {}
    return row


async def capacity_rps(target: Target, load: Workload, slots: int) -> float:
    """Return the replies a second of a closed loop with one client a slot."""
    results = [await target.drive(closed_loop(load, slots, Rounds(1, 4)))]
    return float((await row_of(target, results, {}))["rps"])


async def measure_minutes(
    target: Target, load: Workload, rate: float, minutes: float, seconds: float, keep: Callable[[list[Row]], None]
) -> list[Row]:
    """Return a row for each window of Poisson arrivals, with the memory of the server and of the card.

    Each window has its own arrivals. All replies end before the next window.
    """
    rows: list[Row] = []
    ends = time.monotonic() + 60 * minutes
    while not rows or time.monotonic() < ends:
        result = await target.drive(open_loop(load, rate, seconds, seed=len(rows), warm_up_s=2.0))
        row = await row_of(target, [result], {"minute": round(len(rows) * seconds / 60, 2)})
        rows.append({**row, **target.endpoint.usage(), **card_memory()})
        log_step(str(rows[-1]))
        keep(rows)
    return rows


def creep(rows: Sequence[Row]) -> Row:
    """Return what grew over all minutes: failures, slopes of memory in MiB a minute, and p99 of TTFA by thirds.

    The slopes are least squares without the first minutes, in which buffers and caches fill.
    """
    filled = [row for row in rows if row["minute"] >= FILLING_MINUTES] or list(rows)
    third = max(1, len(rows) // 3)
    found: Row = {"windows": len(rows), **{name: sum(row[name] for row in rows) for name in ("calls", *WRONG)}}
    for name in ("rss_mib", "card_mib"):
        if len(filled) > 1 and all(name in row for row in filled):
            at = [float(row["minute"]) for row in filled]
            slope = statistics.linear_regression(at, [float(row[name]) for row in filled]).slope
            found[f"{name}_a_minute"] = round(slope, 3)
    for name, part in (("first", rows[:third]), ("last", rows[-third:])):
        told = [float(row["ttfa_p99_ms"]) for row in part if row["ttfa_p99_ms"] is not None]
        found[f"ttfa_p99_{name}_third_ms"] = rounded(percentile(told, 0.5), 2)
    return found


async def measure_http(urls: Sequence[tuple[str, str]], count: int) -> list[Row]:
    """Return the times of a small answer (GET /v1/audio/voices) of each server, in turns: the cost of a hop."""
    took: dict[str, list[float]] = {name: [] for name, _ in urls}
    async with httpx.AsyncClient(trust_env=False) as client:
        for turn in range(count + WARM_UP_CALLS):
            for name, url in urls:
                start = time.perf_counter()
                (await client.get(f"{url}/v1/audio/voices")).raise_for_status()
                if turn >= WARM_UP_CALLS:
                    took[name].append(1000 * (time.perf_counter() - start))
    return [{"target": name, "answers": count, **percentiles("http", took[name], 50, 95)} for name in took]


def card_memory() -> Row:
    """Return the used memory of the card; nothing without one."""
    import torch

    if not torch.accelerator.is_available():
        return {}
    free, total = torch.get_device_module(torch.accelerator.current_accelerator()).mem_get_info()
    return {"card_mib": round((total - free) / 2**20, 1)}


def _about(load: Workload) -> Row:
    about: Row = {"mode": str(load.mode), "dataset": str(load.dataset), "text": str(load.manner)}
    if load.voices:
        about["voices"] = str(load.voices)
    if load.manner is Manner.SILENCE:
        about["max_buffer_delay_ms"] = Limits().max_buffer_delay_ms
    return about


def _are_compared(targets: Sequence[Target]) -> bool:
    """True if there are several arms or servers."""
    return len({target.arm for target in targets}) > 1
