"""Tests for the engine benchmark with a tiny checkpoint: times and their lower bounds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.engine import __main__ as engine
from benchmarks.engine.lower_bounds import (
    HardwareRates,
    OperationCost,
    frame_cost,
    predictor_cost,
    prefill_cost,
    weights_of,
)
from runtime.model.checkpoints.config_files import read_model_config
from tests.support.checkpoints.files import GENERATION, model_config
from tests.support.checkpoints.published import LARGE


def run(monkeypatch: pytest.MonkeyPatch, file: Path, words: str) -> dict[str, list[dict[str, float]]]:
    monkeypatch.setattr(sys, "argv", ["engine", *words.split(), "--device", "cpu", "--json", str(file)])
    assert engine.main() == 0
    return json.loads(file.read_text("utf-8"))["tables"]


@pytest.mark.slow
def test_model_parts_are_measured_with_their_lower_bounds(
    endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = "--batches 1,3 --contexts 64,4096 --prompts 16,40 --frames 3 --length 300 --profile"
    tables = run(monkeypatch, tmp_path / "found.json", f"--model {endless} {sizes}")
    # The context of 4096 positions is skipped, because the slots are shorter.
    assert [row["batch"] for row in tables["frames"]] == [1, 3]
    assert [row["positions"] for row in tables["prefill"]] == [16, 40]
    assert min(tables["rates"][0].values()) >= 0
    for name in ("frames", "predictor", "prefill"):
        assert all(row["floor_ms"] >= 0 and row["times_floor"] > 0 for row in tables[name])


@pytest.mark.slow
def test_setting_variants_are_measured_with_the_same_batch_sizes(
    endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = "--batches 1 --contexts 64 --prompts 16 --frames 2 --length 300 --variant a --variant b:THREADS=1"
    tables = run(monkeypatch, tmp_path / "found.json", f"--model {endless} {sizes}")
    columns = {"frames": "frame_ms", "predictor": "predictor_ms", "prefill": "prefill_ms", "code2wav": "code2wav_ms"}
    for name, column in columns.items():
        assert [row["variant"] for row in tables[name]] == ["a", "b"] * (len(tables[name]) // 2)
        assert all(row[column] > 0 for row in tables[name])


def test_lower_bound_is_the_larger_of_memory_and_compute_time() -> None:
    rates = HardwareRates(read=100.0, multiplied=1000.0)
    assert OperationCost(15, 10, 100).floor_ms(rates) == pytest.approx(500)
    assert OperationCost(15, 10, 100).floor_ms(rates, 1) == pytest.approx(350)
    assert (OperationCost(15, 10, 100) + OperationCost(0, 0, 1900)).floor_ms(rates) == pytest.approx(2000)


def test_cost_of_published_sizes_equals_the_size_of_their_matrices(tmp_path: Path) -> None:
    """Expected sizes: 28 layers of 50.3 million weights, and five layers of 15.7 million.

    The 28 layers are read once per frame, and the five layers 15 times.
    """
    (tmp_path / "config.json").write_text(json.dumps(model_config(LARGE, "custom_voice")), encoding="utf-8")
    (tmp_path / "generation_config.json").write_text(json.dumps(GENERATION), encoding="utf-8")
    config = read_model_config(tmp_path)
    talker, predictor = weights_of(config.talker), weights_of(config.predictor)
    assert talker == 28 * (2048 * 4096 + 2048 * 2048 + 3 * 2048 * 6144)
    assert predictor == 5 * (1024 * 4096 + 2048 * 1024 + 3 * 1024 * 3072)
    assert predictor_cost(config, 1).weights == pytest.approx(15 * (predictor + 2048 * 1024), rel=0.01)
    frame = frame_cost(config, 1, 0)
    assert frame.weights == pytest.approx(talker + 3072 * 2048 + predictor_cost(config, 1).weights)
    # The rows share the weights, but each of the 64 rows reads its own keys and values.
    more = 2 * (frame_cost(config, 64, 100).kv_cache - frame_cost(config, 64, 0).kv_cache)
    assert more == 64 * 100 * 28 * 2 * 8 * 128 * 2
    assert prefill_cost(config, 512).operations > 512 * 2 * talker
