"""Repeated measurements of processor time, for machines that also run other programs."""

from __future__ import annotations

from collections.abc import Callable

MAX_ROUNDS = 12


def least_times(short: Callable[[], float], long: Callable[[], float], max_ratio: float) -> tuple[float, float]:
    """Run two measurements alternately, and return the minimum time of each.

    Other programs only make a measurement longer. So rounds are repeated until `long` takes less than `max_ratio` times
    as long as `short`, at most `MAX_ROUNDS` times. For example, quadratic work has a ratio of 4 with an
    input of twice the length.

    Args:
        short: Measures the shorter input, in seconds.
        long: Measures the longer input, in seconds.
    """
    least = short(), long()
    for _ in range(MAX_ROUNDS - 1):
        if least[1] < max_ratio * least[0]:
            break
        least = min(least[0], short()), min(least[1], long())
    return least
