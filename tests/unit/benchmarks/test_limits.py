"""How far parts are from what the machine could do, measured once, on a tiny checkpoint."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import limits
from benchmarks.limits import Cost, Rates, frame_cost, predictor_cost, prefill_cost, weights_of
from runtime.model.config_files import read_model_config
from tests.support.checkpoints.files import GENERATION, model_config
from tests.support.checkpoints.published import LARGE


def test_parts_beside_their_floors_and_a_company(
    endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tmp_path / "found.json"
    asked = ["--model", str(endless), "--batches", "1,3", "--prompts", "16,40", "--frames", "3", "--clients", "2"]
    monkeypatch.setenv("VOICEWRIGHT_DEVICE", "cpu")
    monkeypatch.setattr(limits, "COMPANY_ROUNDS", 1)
    monkeypatch.setattr(sys, "argv", ["limits", *asked, "--length", "300", "--profile", "--json", str(found)])
    assert limits.main() == 0
    tables = json.loads(found.read_text("utf-8"))
    assert [row["batch"] for row in tables["frames"]] == [row["batch"] for row in tables["predictor"]] == [1, 3]
    assert [row["positions"] for row in tables["prefill"]] == [16, 40]
    assert min(tables["rates"][0][rate] for rate in ("copied_tb_s", "read_tb_s", "tflop_s")) > 0
    for name in ("frames", "predictor", "prefill"):
        assert all(row["floor_ms"] >= 0 and row["times"] > 0 for row in tables[name])
    assert [row["clients"] for row in tables["company"]] == [2]
    assert tables["company"][0]["calls"] == 2


def test_a_floor_is_the_larger_of_reading_and_multiplying() -> None:
    rates = Rates(copied=0.0, read=100.0, multiplied=1000.0)
    assert Cost(15, 10, 100).floor_ms(rates) == pytest.approx(500)
    assert Cost(15, 10, 100).floor_ms(rates, 1) == pytest.approx(350)
    assert (Cost(15, 10, 100) + Cost(0, 0, 1900)).floor_ms(rates) == pytest.approx(2000)


def test_the_published_sizes_cost_what_their_matrices_hold(tmp_path: Path) -> None:
    """By hand: 28 layers of 50.3 million numbers, five of 15.7, read once, and fifteen times."""
    (tmp_path / "config.json").write_text(json.dumps(model_config(LARGE, "custom_voice")), encoding="utf-8")
    (tmp_path / "generation_config.json").write_text(json.dumps(GENERATION), encoding="utf-8")
    config = read_model_config(tmp_path)
    talker, predictor = weights_of(config.talker), weights_of(config.predictor)
    assert talker == 28 * (2048 * 4096 + 2048 * 2048 + 3 * 2048 * 6144)
    assert predictor == 5 * (1024 * 4096 + 2048 * 1024 + 3 * 1024 * 3072)
    assert predictor_cost(config, 1).weights == pytest.approx(15 * (predictor + 2048 * 1024), rel=0.01)
    frame = frame_cost(config, 1, 0)
    assert frame.weights == pytest.approx(talker + 3072 * 2048 + predictor_cost(config, 1).weights)
    # Sixty-four rows read the same weights, and each its own keys and values.
    more = 2 * (frame_cost(config, 64, 100).kept - frame_cost(config, 64, 0).kept)
    assert more == 64 * 100 * 28 * 2 * 8 * 128 * 2
    assert prefill_cost(config, 512).operations > 512 * 2 * talker
