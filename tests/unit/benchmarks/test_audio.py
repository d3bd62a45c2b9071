"""The command that says what sound is like: two arms that are alike, and one that is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.audio import main


def test_arms_are_compared_and_their_sound_is_measured(
    endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "audio.json"
    arms = "--arm one --arm other:VOICEWRIGHT_MAX_SLOTS=2 --arm rounded:VOICEWRIGHT_QUANTIZE=int8"
    monkeypatch.setattr("sys.argv", f"audio --model {endless} --device cpu --frames 6 {arms} --json {file}".split())
    assert main() == 0
    tables = json.loads(file.read_text())
    assert [row["arm"] for row in tables["sound"]] == ["one", "other", "rounded"]
    first, second, rounded = ({**row, "arm": ""} for row in tables["sound"])
    assert first == second != rounded
    assert first["seconds"] == pytest.approx(6 * 0.08)
    other, changed = tables["against the first arm"]
    assert (other["codes_equal"], other["samples_apart"]) == (other["texts"], 0)
    assert changed["codes_equal"] < changed["texts"]


def test_an_arm_that_no_setting_makes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["audio", "--arm", "other:VOICEWRIGHT_EAGRE=1"])
    with pytest.raises(SystemExit, match="no setting is called VOICEWRIGHT_EAGRE"):
        main()
