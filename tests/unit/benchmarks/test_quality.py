"""Tests for the quality benchmark: codes of batched requests, and scores of each sample."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from benchmarks.common.listener import CodesAndPcm, first_difference
from benchmarks.engine.model_parts import ModelParts
from benchmarks.quality.__main__ import main
from benchmarks.quality.blends import is_monotone, timbre_positions
from benchmarks.quality.scores import SampledCodes, compare_sampled_codes, measure_scores, record_sampled_codes
from runtime.engine.execution import frame
from runtime.engine.execution.prompt import Prompt
from runtime.engine.execution.sampling import BatchSamplingParams
from tests.conftest import FolderOf


def said(*codes: int) -> CodesAndPcm:
    return CodesAndPcm(np.array(codes)[:, None], np.zeros(0, np.int16))


@pytest.mark.parametrize(
    ("one", "other", "frame"),
    [((1, 2, 3), (1, 2, 3), None), ((1, 2, 3), (1, 5, 3), 1), ((1, 2), (1, 2, 3), 2), ((4, 2), (1, 2, 3), 0)],
)
def test_first_differing_frame_is_found(one: tuple[int, ...], other: tuple[int, ...], frame: int | None) -> None:
    assert first_difference(said(*one), said(*other)) == frame


@pytest.mark.slow
def test_codes_of_batches_variants_and_earlier_runs_are_compared(
    endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def codes(frames: int, variants: str = "") -> dict[str, list[dict[str, Any]]]:
        words = f"quality codes --model {endless} --device cpu --rows 1,3 --frames {frames} --baseline {tmp_path}/run"
        monkeypatch.setattr("sys.argv", [*words.split(), "--json", str(tmp_path / "json"), *variants.split()])
        assert main() == 0
        return json.loads((tmp_path / "json").read_text())["tables"]

    tables = codes(6, "--variant one --variant other:MAX_SLOTS=3 --variant rounded:QUANTIZE=int8")
    assert [(row["rows"], row["failed"], row["codes_differ"]) for row in tables["batch"]] == 3 * [(1, 0, 0), (3, 0, 0)]
    assert [row["frames"] for row in tables["batch"]] == 3 * [6, 18]
    other, rounded = tables["against the first"]
    assert (other["texts"], other["codes_differ"], other["samples_apart"]) == (3, 0, 0)
    assert rounded["codes_differ"] > 0
    (again,) = codes(6)["against the first"]
    assert (again["codes_differ"], again["samples_apart"]) == (0, 0)
    (longer,) = codes(7)["against the first"]
    assert (longer["codes_differ"], longer["first_frame"]) == (3, 6)


def test_divergence_is_computed_from_the_probabilities() -> None:
    half, quarter = torch.tensor([[0.5, 0.5, 0.0]]).log(), torch.tensor([[0.25, 0.75, 0.0]]).log()
    truth, other = SampledCodes([half, quarter]), SampledCodes([half, half])
    own = compare_sampled_codes(truth, truth)
    assert (own["draws"], own["kl"], own["same_first"]) == (2, 0.0, 1.0)
    apart = compare_sampled_codes(truth, other)
    diverged = 0.25 * np.log(0.25 / 0.5) + 0.75 * np.log(0.75 / 0.5)
    assert apart["kl"] == pytest.approx(diverged / 2, abs=1e-5)
    assert apart["same_first"] == 0.5  # If scores are equal, the first score counts as the most probable.


@pytest.mark.slow
def test_quantized_and_float32_weights_are_scored_on_the_same_codes(folder_of: FolderOf) -> None:
    same, fewer = measure_scores(str(folder_of("tiny", "custom_voice")), ["float32", "int8"], positions=60)
    assert same["draws"] == fewer["draws"] >= 60
    assert (same["kl"], same["same_first"]) == (0.0, 1.0)
    assert fewer["kl"] > 0


def test_sampling_in_another_thread_is_not_recorded(folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch) -> None:
    model = str(folder_of("tiny", "custom_voice"))
    alone = record_sampled_codes(model, "float32", 60)
    one = torch.ones(1)
    level = BatchSamplingParams(one, one.long(), one, one.bool(), widest_k=1, any_top_p=False)
    speak = ModelParts.speak

    def speak_as_batch(parts: ModelParts, prompts: Sequence[Prompt], frames: int) -> None:
        other = threading.Thread(target=lambda: vars(frame)["pick"](torch.zeros(1, 1088), level, None))
        other.start()
        other.join()
        speak(parts, prompts, frames)

    monkeypatch.setattr(ModelParts, "speak", speak_as_batch)
    again = record_sampled_codes(model, "float32", 60)
    assert [codes.tolist() for codes in again.codes] == [codes.tolist() for codes in alone.codes]


def test_timbre_is_the_position_between_the_voices_at_both_ends() -> None:
    x_vectors = np.array([[[0, 0], [0, 2]], [[1, 9], [2, -9]], [[4, 0], [4, 2]]], np.float32)
    assert timbre_positions(x_vectors).tolist() == [[0, 0], [0.25, 0.5], [1, 1]]


def test_only_a_clear_step_back_is_not_monotone() -> None:
    def with_noise(*means: float) -> NDArray[np.float64]:
        noise = np.random.default_rng(1).normal(size=(len(means), 24))
        return np.array(means)[:, None] + noise

    rising, unclear, falls_back = (with_noise(*means) for means in ((0, 2, 4), (0, -0.1, 4), (0, 5, 4)))
    assert [is_monotone(values) for values in (rising, -rising, unclear, falls_back)] == [True, True, True, False]


@pytest.mark.slow
def test_f0_and_timbre_of_the_embedded_voice_follow_the_weight_of_a_blend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["quality", "blends", "--pairs", "angus+clara", "--sentences", "6", "--json", str(tmp_path / "json")]
    monkeypatch.setattr("sys.argv", words)
    assert main() == 0
    f0, timbre = json.loads((tmp_path / "json").read_text())["tables"]["blends"]
    assert f0["0"] < 130 < 180 < f0["1"]
    assert (timbre["0"], timbre["1"]) == (0, 1)
