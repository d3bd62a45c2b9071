"""What a soak reads of the runtime's metrics."""

from __future__ import annotations

import math

import pytest

from benchmarks.soak_report import lag_bounds
from runtime.server.metrics import ServerMetrics

NAME = "voicewright_loop_lag_seconds_bucket"


def page(*counts: int) -> str:
    """Of the runtime's own metrics, with other counts in the three first bounds and in the last."""
    said = ServerMetrics().page(None).decode()
    bounds = [line.rpartition(" ")[0] for line in said.splitlines() if line.startswith(NAME)]
    totals = [counts[min(number, len(counts) - 1)] for number in range(len(bounds))]
    return "\n".join(["# HELP …", *(f"{bound} {total}.0" for bound, total in zip(bounds, totals, strict=True))])


def test_nothing_measured_says_nothing() -> None:
    assert lag_bounds("") == {}


@pytest.mark.parametrize(
    ("counts", "most", "all_"),
    [((1000,), 1, 1), ((999, 1000), 1, 2), ((10, 900, 1000), 5, 5), ((0,) * 9 + (1,), math.inf, math.inf)],
)
def test_the_bounds_below_which_it_was_late_are_read_of_the_page(
    counts: tuple[int, ...], most: float, all_: float
) -> None:
    assert lag_bounds(page(*counts)) == {"99.9 %": most, "all": all_}
