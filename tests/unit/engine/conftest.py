"""Fixtures with the devices for the engine's tests."""

from __future__ import annotations

from itertools import count

import pytest

from tests.support import engines
from tests.support.brief import cloner, designer, few_shapes_of_sound, speaker
from tests.support.late_device import LateDevice

__all__ = ["cloner", "designer", "each_device", "few_shapes_of_sound", "quick_starts", "speaker"]


@pytest.fixture(autouse=True)
def quick_starts(few_shapes_of_sound: None) -> None:
    """Capture few audio graphs, so that engines of these tests start quickly."""


@pytest.fixture(params=["at once", pytest.param("late", marks=pytest.mark.slow)])
def each_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test on the CPU device, and on one that finishes all work late.

    Fixtures of the module use the first device.
    """
    if request.param == "late":
        seeds = count()
        monkeypatch.setattr(engines, "new_device", lambda: LateDevice(next(seeds)))
