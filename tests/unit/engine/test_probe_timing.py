"""What something takes is timed without what else runs, and with it."""

from __future__ import annotations

import sys
import time

import pytest
import torch

from runtime.engine.probe_timing import Run, Timing, computing_with, repeating, timing
from tests.support.patience import until


def test_other_work_is_in_what_it_takes_now_and_not_in_what_it_takes() -> None:
    runs = [Run(clock=3.0, processor=1.1), Run(clock=2.0, processor=1.0), Run(clock=9.0, processor=1.2)]
    assert Timing.of(runs, by_processor=True) == Timing(best=1.0, middle=3.0)
    assert Timing.of(runs, by_processor=False) == Timing(best=2.0, middle=3.0)


def test_of_one_thread_others_work_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.engine.probe_timing.ROUNDS", 1)

    def work() -> torch.Tensor:
        time.sleep(0.02)  # as if others had the core meanwhile
        return torch.zeros(())

    if sys.platform == "win32":
        pytest.skip("its processor time is told in steps of 16 ms")
    with computing_with(1):
        assert timing(work).best < 0.01 < 0.02 <= timing(work).middle
    with computing_with(2):
        assert timing(work).best >= 0.02


def test_sound_is_made_while_frames_are_measured_beside_it() -> None:
    made: list[int] = []

    def make() -> torch.Tensor:
        made.append(torch.get_num_threads())
        return torch.zeros(())

    before = torch.get_num_threads()
    with repeating(make, threads=1):
        assert made
        assert torch.get_num_threads() == before
        several = len(made) + 2
        until(lambda: len(made) > several)
    stopped = len(made)
    assert set(made) == {1}
    assert stopped == len(made)
