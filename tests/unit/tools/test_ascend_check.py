"""The check that an owner of the hardware runs, over the stand-in: parity, figures, the table; a refusal in a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import FolderOf
from tests.support.brief import few_shapes_of_sound
from tests.support.npu_backend import register
from tests.support.torch_npu_stand_in import StandIn, install
from tools import ascend_check

__all__ = ["few_shapes_of_sound"]


@pytest.fixture
def ascend(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    yield install(monkeypatch)
    register(None)


@pytest.mark.usefixtures("few_shapes_of_sound")
def test_it_compares_with_the_cpu_measures_and_writes_both_down(
    ascend: StandIn,
    folder_of: FolderOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(ascend_check, "FIRSTS", 2)
    monkeypatch.setattr("runtime.device.npu.WARM_UPS", 1)
    monkeypatch.setattr("runtime.engine.prompt_batches.CHUNKS", (64, 256))
    out = tmp_path / "npu.json"
    model = str(folder_of("brief", "custom_voice"))
    ascend_check.main(["--model", model, "--json", str(out), "--frames", "4", "--batches", "1", "--counted", "2"])
    report = json.loads(out.read_text("utf-8"))
    assert report["parity"].keys() == {
        f"{language}, {way}, {how}"
        for language in ascend_check.TEXTS
        for way in ("greedy", "drawn")
        for how in ("graphs", "eager")
    }
    assert all(row["equal"] == row["of"] == row["made"] for row in report["parity"].values())
    assert report["frames"][0]["frame_ms"] > 0
    assert report["graphs"]["decode steps"] > 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| parity with the CPU in float32, frames | 32 of 32 |"
    assert any(line.startswith("| frame, batch 1, ms | ") for line in lines)


def test_without_a_device_it_says_so_in_a_line(ascend: StandIn, folder_of: FolderOf, tmp_path: Path) -> None:
    ascend.npu.available = False
    model = str(folder_of("brief", "custom_voice"))
    with pytest.raises(SystemExit, match="device_unavailable: Device npu cannot be used"):
        ascend_check.main(["--model", model, "--json", str(tmp_path / "x"), "--frames", "1"])


def test_frames_are_counted_up_to_the_first_that_differs() -> None:
    ours = np.zeros((5, 2), np.int64)
    theirs = np.zeros((4, 2), np.int64)
    assert ascend_check.equal_frames(ours, theirs) == 4
    theirs[2, 1] = 1
    assert ascend_check.equal_frames(ours, theirs) == 2
