"""What the engine chose, beside what it could have, measured once on a tiny checkpoint."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import choices


def test_frames_that_are_read_late_have_the_codes_of_those_read_at_once(
    endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tmp_path / "found.json"
    asked = ["--model", str(endless), "--batches", "1,3", "--frames", "4", "--json", str(found)]
    monkeypatch.setenv("VOICEWRIGHT_DEVICE", "cpu")
    monkeypatch.setattr(sys, "argv", ["choices", *asked])
    assert choices.main() == 0
    rows = json.loads(found.read_text("utf-8"))
    assert [(row["batch"], row["graphs"], row["waits"]) for row in rows] == [
        (batch, "one graph", waits) for batch in (1, 3) for waits in (False, True)
    ]
    assert all(row["same_codes"] and min(row["runs_ms"]) > 0 for row in rows)
