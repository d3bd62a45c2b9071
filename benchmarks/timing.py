"""What one launch takes on a card."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch

REPEATS = 8  # launches in a graph, so that the gaps between replays do not count


def microseconds(work: Callable[[], object]) -> float:
    """Of one launch, in a graph of several."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPEATS):
            work()
    times = []
    for _ in range(12):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1000 * start.elapsed_time(end) / REPEATS)
    return statistics.median(times[2:])
