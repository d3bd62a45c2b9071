"""Tests that `voicewright say` and the reference agree on new random checkpoints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.support.checkpoints import SPECS, write_checkpoint
from tests.support.signals import voice

ROOT = Path(__file__).resolve().parents[2]
ORACLE = Path(os.environ.get("ORACLE_VENV", ROOT / ".venv-oracle")) / "bin" / "python"

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not ORACLE.exists(), reason="no .venv-oracle; tests/golden/oracle_env.sh makes it"),
]

TEXT = "McDonald's iPhone 7 speaks: 你好，hello world!"
WORDS: dict[str, list[str]] = {
    "custom_voice": ["--language", "english", "--instruct", "Speak low and slow."],
    "voice_design": ["--language", "Chinese", "--instruct", "A young, clear voice.", "--layout", "streaming"],
    "base": ["--ref-text", "The old phone is slow."],
    "base_whole": ["--ref-text", "The old phone is slow.", "--layout", "non_streaming", "--language", "english"],
    "base_x_vector": ["--x-vector-only"],
}
PCM_ATOL = 1.6 / 32767


def run(python: Path | str, *words: str) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    result = subprocess.run([str(python), "-m", *words], cwd=ROOT, env=environment, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode()[-2000:]


@pytest.mark.parametrize(
    ("source", "kind", "seed"),
    [
        ("odd", "base_x_vector", 902),
        ("reference", "custom_voice", 904),
        ("reference", "base_whole", 905),
    ],
)
def test_say_command_equals_the_reference_implementation_on_a_new_checkpoint(
    tmp_path: Path, source: str, kind: str, seed: int
) -> None:
    mode = kind if kind in ("custom_voice", "voice_design") else "base"
    folder, ours, theirs = tmp_path / "checkpoint", tmp_path / "ours.npy", tmp_path / "theirs.npy"
    our_sound, their_sound = tmp_path / "ours.wav", tmp_path / "theirs.wav"
    if source == "reference":
        run(ORACLE, "tests.golden.oracle_say", "--random-checkpoint", str(folder), "--mode", mode, "--seed", str(seed))
    else:
        write_checkpoint(folder, SPECS[source], mode, seed)
    words = [TEXT, "--model", str(folder), "--mode", mode, "--greedy", "--max-frames", "25", *WORDS[kind]]
    if mode == "custom_voice":
        words += ["--voice", {"tiny": "dylan", "odd": "mei", "reference": "max"}[source]]
    if mode == "base":
        soundfile.write(tmp_path / "reference.wav", voice(1.7, seed), 24_000, subtype="FLOAT")
        words += ["--ref-audio", str(tmp_path / "reference.wav")]
    run(ORACLE, "tests.golden.oracle_say", *words, "--codes-out", str(theirs), "--out", str(their_sound))
    run(sys.executable, "runtime.cli", "say", *words, "--codes-out", str(ours), "--out", str(our_sound))
    assert np.array_equal(np.load(ours), np.load(theirs))
    left, right = soundfile.read(our_sound)[0], soundfile.read(their_sound)[0]
    # Because of rounding, the reference may return one sample more or less (docs/model.md 6.1).
    assert abs(len(left) - len(right)) <= 1
    shared = min(len(left), len(right))
    assert np.abs(left[-shared:] * 32768 / 32767 - right[-shared:]).max() <= PCM_ATOL
