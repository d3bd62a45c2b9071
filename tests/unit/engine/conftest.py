"""Fixtures for the engine tests that change the device or shorten the engine's start."""

from __future__ import annotations

import threading
from itertools import count

import pytest

from runtime.engine.audio.code2wav_worker import Code2WavWorker
from tests.support import engines
from tests.support.brief import cloner, designer, limit_code2wav_graphs, speaker
from tests.support.late_device import LateDevice

__all__ = ["cloner", "designer", "each_device", "limit_code2wav_graphs", "quick_starts", "speaker"]


@pytest.fixture
def held_worker(monkeypatch: pytest.MonkeyPatch) -> Code2WavWorker:
    """Return the engine's Code2Wav worker, whose tasks wait until the test runs them."""
    worker = Code2WavWorker()
    worker.threads.append(threading.current_thread())  # Without threads, the worker would run tasks immediately.
    monkeypatch.setattr("runtime.engine.engine.Code2WavWorker", lambda *_: worker)
    return worker


@pytest.fixture(autouse=True)
def quick_starts(limit_code2wav_graphs: None) -> None:
    """Limit the captured Code2Wav graphs, so that engines of these tests start quickly."""


@pytest.fixture(params=["at once", pytest.param("late", marks=pytest.mark.slow)])
def each_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test with the CPU device, and with a device that finishes all work late.

    Fixtures of the test module always use the first device.
    """
    if request.param == "late":
        seeds = count()
        monkeypatch.setattr(engines, "new_device", lambda: LateDevice(next(seeds)))
