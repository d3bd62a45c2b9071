"""Profiles that show the time of each kernel, for a CUDA GPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.common.report import Row, Tables, log_step
from benchmarks.engine.model_parts import ModelParts, synchronize

REPEATS = 10
LISTED_KERNELS = 14


def profile_parts(parts: ModelParts, batches: Sequence[int], prompts: Sequence[int], context: int) -> Tables:
    """Return tables of kernel times for prefill, code predictor and frames.

    The first frame of an utterance is part of the prefill. Without a GPU, the result is empty.
    """
    tables: Tables = {}
    for positions in prompts:
        log_step(f"kernels of prefill, {positions} positions")
        tables[f"kernels: prefill of {positions} positions"] = by_kernel(partial(parts.prefill, positions))
    for batch in batches:
        log_step(f"kernels of frames and code predictor, {batch} rows")
        tables[f"kernels: predictor, {batch} rows"] = by_kernel(partial(parts.predict, batch))
        slots = parts.begin_rows(batch, context)
        tables[f"kernels: frame, {batch} rows"] = by_kernel(lambda: parts.launch(slots)())  # noqa: B023
        parts.end_rows(slots)
    return {name: rows for name, rows in tables.items() if rows}


def by_kernel(work: Callable[[], object]) -> list[Row]:
    """Profile a function, and return the time and the number of launches of each kernel.

    The kernels are sorted by time, the longest first. Times are in microseconds. Kernels may overlap. Therefore, only
    the time after the end of all earlier kernels is counted for a kernel, and the times add up to the total time.
    """
    if not torch.cuda.is_available():
        return []
    work()
    synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(REPEATS):
            work()
            synchronize()
    spent, counted = defaultdict[str, float](float), defaultdict[str, int](int)
    before = 0.0
    for end, start, name in sorted(_spans(profiled)):
        spent[name] += end - max(before, start)
        counted[name] += 1
        before = max(before, end)
    return _listed(spent, counted)


def _spans(profiled: profile) -> list[tuple[float, float, str]]:
    """Return (end, start, name) of each event on the GPU, in microseconds."""
    return [
        (event.time_range.end, event.time_range.start, event.name)
        for event in profiled.events() or []  # type: ignore[no-untyped-call]
        if "CUDA" in str(event.device_type)
    ]


def _listed(spent: dict[str, float], counted: dict[str, int]) -> list[Row]:
    rows: list[Row] = [
        {"kernel": name[:70], "us": round(took / REPEATS, 1), "launches": round(counted[name] / REPEATS, 1)}
        for name, took in sorted(spent.items(), key=lambda pair: -pair[1])
    ]
    sums = {"all others": rows[LISTED_KERNELS:], "together": rows}
    totals: list[Row] = [
        {"kernel": name, **{column: round(sum(row[column] for row in of), 1) for column in ("us", "launches")}}
        for name, of in sums.items()
        if of
    ]
    return rows[:LISTED_KERNELS] + totals
