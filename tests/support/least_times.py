"""Comparison of processor times that tolerates other programs on the machine."""

from __future__ import annotations

from collections.abc import Callable

MAX_ROUNDS = 12


def least_times(short: Callable[[], float], long: Callable[[], float], max_ratio: float) -> tuple[float, float]:
    """Run two measurements alternately, and return the minimum of each measurement in seconds.

    Other programs only make a measurement longer. Therefore the measurements are repeated up to `MAX_ROUNDS` times,
    until `long` takes less than `max_ratio` times as long as `short`. For example, a quadratic algorithm has a ratio of
    4 if the input is twice as long.

    Args:
        short: Function that measures the shorter input and returns seconds.
        long: Function that measures the longer input and returns seconds.
    """
    least = short(), long()
    for _ in range(MAX_ROUNDS - 1):
        if least[1] < max_ratio * least[0]:
            break
        least = min(least[0], short()), min(least[1], long())
    return least
