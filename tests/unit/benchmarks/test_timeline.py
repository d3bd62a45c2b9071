"""Where the time to a first sound goes, on a tiny checkpoint."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import timeline


def test_every_step_to_the_first_sound_is_told(
    endless: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VOICEWRIGHT_DEVICE", "cpu")
    monkeypatch.setattr(sys, "argv", ["timeline", "--model", str(endless), "--replies", "3", "--length", "200"])
    assert timeline.main() == 0
    first, *line = capsys.readouterr().out.splitlines()
    assert first.startswith("first sound p50 ")
    told = [row.split(maxsplit=1) for row in line]
    assert [float(at) for at, _ in told] == sorted(float(at) for at, _ in told)
    of_engine = [name for _, name in told]
    wanted = ["EngineCore.begin begins", "Parts.begin ends", "ModelRunner.prefill_chunks ends"]
    wanted += ["ModelRunner.first ends", "Code2WavScheduler.make begins", "SOUND"]
    assert [name for name in of_engine if name in wanted] == wanted
