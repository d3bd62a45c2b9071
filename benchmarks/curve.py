"""Draws figures over time as a picture: one panel below the other, all over the same minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, PANEL, GAP = 720, 110, 34
LEFT, RIGHT = 70, 16
LINE, INK = "#2f6f8f", "#666"


@dataclass(frozen=True, slots=True)
class Panel:
    """One figure: minutes and values; None where there was nothing to measure."""

    name: str  # with its unit
    points: Sequence[tuple[float, float | None]]


def svg(title: str, panels: Sequence[Panel]) -> str:
    """The picture. Each panel begins at 0 and says its largest value."""
    height = GAP + len(panels) * (PANEL + GAP)
    last = max((minute for panel in panels for minute, _ in panel.points), default=0.0) or 1.0
    drawn = [_panel(panel, GAP + number * (PANEL + GAP), last) for number, panel in enumerate(panels)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
            f'font-size="12" fill="{INK}">',
            f"<title>{title}</title>",
            *drawn,
            f'<text x="{WIDTH - RIGHT}" y="{height - 8}" text-anchor="end">{last:.0f} minutes</text>',
            "</svg>\n",
        ]
    )


def _panel(panel: Panel, top: int, last: float) -> str:
    known = [(minute, value) for minute, value in panel.points if value is not None]
    largest = max((value for _, value in known), default=0.0) or 1.0
    bottom, wide = top + PANEL, WIDTH - LEFT - RIGHT
    points = " ".join(f"{LEFT + wide * x / last:.1f},{bottom - PANEL * y / largest:.1f}" for x, y in known)
    return (
        f'<text x="{LEFT}" y="{top - 8}">{panel.name}</text>'
        f'<text x="{LEFT - 6}" y="{top + 10}" text-anchor="end">{largest:.0f}</text>'
        f'<text x="{LEFT - 6}" y="{bottom}" text-anchor="end">0</text>'
        f'<path d="M{LEFT} {top}V{bottom}H{WIDTH - RIGHT}" fill="none" stroke="{INK}"/>'
        f'<polyline points="{points}" fill="none" stroke="{LINE}" stroke-width="1.5"/>'
    )
