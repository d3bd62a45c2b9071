"""What the benchmarks of weights with fewer bits count: a program's own words, scores draw by draw, words heard."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.exactness import Draws, compare, drawn, measure
from benchmarks.laptop import measure_theirs
from benchmarks.parts import Parts
from benchmarks.word_errors import edits, row_of
from runtime.engine import frame
from runtime.engine.prompt import Prompt
from runtime.engine.sampling import LevelSettings
from tests.conftest import FolderOf

SAYS = """Prefill: 26 positions (instruct=0)
  Prefill: 500 ms
  Talker step: 2935 ms (293.5 ms/f), Code Predictor: 8929 ms (892.9 ms/f)
Audio: 0.8s generated in 21.3s (RTF 26.59)
"""


def program(folder: Path, says: str) -> Path:
    """One that says this, whatever it is asked."""
    path = folder / "qwen_tts"
    path.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}END\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands for the program")
def test_a_frame_of_the_other_program_is_all_that_it_took_but_its_prompt(tmp_path: Path) -> None:
    row = measure_theirs(program(tmp_path, SAYS), "model", "int8", frames=10, threads=2)
    assert row["frame_ms"] == pytest.approx((21300 - 500) / 10)
    assert (row["talker_ms"], row["predictor_ms"]) == (293.5, 892.9)
    with pytest.raises(RuntimeError, match="did not say how long"):
        measure_theirs(program(tmp_path, "no model\n"), "model", "int8", frames=10, threads=2)


def test_scores_that_differ_diverge_by_what_their_probabilities_say() -> None:
    half, quarter = torch.tensor([[0.5, 0.5, 0.0]]).log(), torch.tensor([[0.25, 0.75, 0.0]]).log()
    truth, other = Draws([half, quarter]), Draws([half, half])
    own = compare(truth, truth)
    assert (own["draws"], own["kl"], own["same_first"]) == (2, 0.0, 1.0)
    apart = compare(truth, other)
    diverged = 0.25 * np.log(0.25 / 0.5) + 0.75 * np.log(0.75 / 0.5)
    assert apart["kl"] == pytest.approx(diverged / 2, abs=1e-5)
    assert apart["same_first"] == 0.5  # of equal scores the first counts as the most probable


def test_other_weights_are_led_along_the_codes_of_float32(folder_of: FolderOf) -> None:
    same, fewer = measure(str(folder_of("tiny", "custom_voice")), ["float32", "int8"], positions=60)
    assert same["draws"] == fewer["draws"] >= 60
    assert (same["kl"], same["same_first"]) == (0.0, 1.0)
    assert fewer["kl"] > 0


def test_what_another_engine_of_the_process_draws_meanwhile_is_not_counted(
    folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = str(folder_of("tiny", "custom_voice"))
    alone = drawn(model, "float32", 60)
    one = torch.ones(1)
    level = LevelSettings(one, one.long(), one, one.bool(), widest_k=1, any_top_p=False)
    speak = Parts.speak

    def in_company(parts: Parts, prompts: Sequence[Prompt], frames: int) -> None:
        other = threading.Thread(target=lambda: vars(frame)["pick"](torch.zeros(1, 1088), level, None))
        other.start()
        other.join()
        speak(parts, prompts, frames)

    monkeypatch.setattr(Parts, "speak", in_company)
    again = drawn(model, "float32", 60)
    assert [codes.tolist() for codes in again.codes] == [codes.tolist() for codes in alone.codes]


@pytest.mark.parametrize(
    ("heard", "count"),
    [("the old gardener slept", 0), ("the gardener slept", 1), ("an old gardener slept well", 2), ("", 4)],
)
def test_words_are_exchanged_put_in_and_left_out(heard: str, count: int) -> None:
    assert edits(["the", "old", "gardener", "slept"], heard.split()) == count


def test_a_rate_is_over_all_words_and_its_error_is_that_of_sentences() -> None:
    truth, own, lengths = np.array([1, 0, 2]), np.array([2, 1, 3]), np.array([10, 10, 10])
    row = row_of("int8", own, truth, lengths)
    assert (row["wer"], row["more_than_float32"], row["error"]) == (20.0, 10.0, 0.0)
    uneven = row_of("int8", np.array([1, 0, 8]), truth, lengths)
    assert (uneven["more_than_float32"], uneven["error"] > 0) == (20.0, True)
