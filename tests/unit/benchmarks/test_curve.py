"""The picture of a soak."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.curve import LEFT, PANEL, RIGHT, WIDTH, Panel, svg

SVG = "{http://www.w3.org/2000/svg}"


def test_each_panel_has_its_line_from_zero_to_its_largest() -> None:
    picture = svg(
        "A soak", [Panel("Memory, MiB", [(0, 100), (1, 200), (2, 50)]), Panel("TTFA, ms", [(0, None), (1, 80)])]
    )
    drawing = ElementTree.fromstring(picture)
    first, second = (
        [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        for line in drawing.iter(f"{SVG}polyline")
    )
    assert [x for x, _ in first] == [LEFT, LEFT + (WIDTH - LEFT - RIGHT) / 2, WIDTH - RIGHT]
    (_, half), (_, top), (_, quarter) = first
    assert (half - top, quarter - top) == (PANEL / 2, 0.75 * PANEL)
    assert len(second) == 1
    assert {"Memory, MiB", "200", "TTFA, ms", "80", "2 minutes"} <= {text.text for text in drawing.iter(f"{SVG}text")}


def test_nothing_to_draw_is_an_empty_panel() -> None:
    drawing = ElementTree.fromstring(svg("Nothing", [Panel("Slots", [])]))
    assert [line.attrib["points"] for line in drawing.iter(f"{SVG}polyline")] == [""]
