"""Timing of kernel launches on a CUDA GPU."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch

CARD = torch.device("cuda")
LAUNCHES, REPLAYS = 40, 5


def launch_us(launch: Callable[[int], object]) -> float:
    """Return the time of one launch in microseconds, measured with many in a graph.

    `launch` is called with the launch's number.
    """
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        launch(0)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for number in range(LAUNCHES):
                launch(number)
        graph.replay()
        spent = []
        for _ in range(REPLAYS):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")  # type: ignore[no-untyped-call]
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            spent.append(start.elapsed_time(end))
    return 1000 * statistics.median(spent) / LAUNCHES
