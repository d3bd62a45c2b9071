"""The soak: lags from the runtime's metrics, and the picture."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from benchmarks.soak.report import HEIGHT, LEFT, RIGHT, WIDTH, lag_bounds, svg
from runtime.server.metrics import ServerMetrics

SVG = "{http://www.w3.org/2000/svg}"
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


def test_each_panel_has_its_line_from_zero_to_its_largest() -> None:
    picture = svg("A soak", [0, 1, 2], [("Memory, MiB", [100, 200, 50]), ("TTFA, ms", [None, 80, None])])
    drawing = ElementTree.fromstring(picture)
    first, second = (
        [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        for line in drawing.iter(f"{SVG}polyline")
    )
    assert [x for x, _ in first] == [LEFT, LEFT + (WIDTH - LEFT - RIGHT) / 2, WIDTH - RIGHT]
    (_, half), (_, top), (_, quarter) = first
    assert (half - top, quarter - top) == (HEIGHT / 2, 0.75 * HEIGHT)
    assert len(second) == 1
    assert {"Memory, MiB", "200", "TTFA, ms", "80", "2 minutes"} <= {text.text for text in drawing.iter(f"{SVG}text")}


def test_no_samples_are_an_empty_panel() -> None:
    drawing = ElementTree.fromstring(svg("Nothing", [], [("Slots", [])]))
    assert [line.attrib["points"] for line in drawing.iter(f"{SVG}polyline")] == [""]
