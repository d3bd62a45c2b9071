"""Tests for the comparison with other implementations of speech synthesis."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmarks.peers.__main__ import main
from benchmarks.peers.child import ExternalProgram, VoicewrightEngine, check_length, measure

REPORT = """Prefill: 26 positions (instruct=0)
  Prefill: 500 ms
Audio: 0.8s generated in 21.3s (RTF 26.59)
"""


def program(folder: Path, report: str) -> ExternalProgram:
    """Return a program that prints its arguments, its input and this report for every text."""
    path = folder / "qwen_tts"
    path.write_text(
        f"#!/bin/sh\necho $* > {folder}/read\ncat >> {folder}/read\ncat >&2 <<'END'\n{report}END\n", "utf-8"
    )
    path.chmod(0o755)
    return ExternalProgram("folder", "cpu", f"{path} -d {{model}} --text '{{text}}' --max-tokens {{frames}}")


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands for the program")
def test_external_program_is_timed_by_its_own_report(tmp_path: Path) -> None:
    assert program(tmp_path, REPORT).speak("Hi there.", 10) == 21.3
    assert (tmp_path / "read").read_text("utf-8") == "-d folder --text Hi there. --max-tokens 10\nHi there."
    assert program(tmp_path, "[Perf] Total 950.0 ms (10 frames)").speak("Hi.", 10) == 0.95
    with pytest.raises(SystemExit, match="did not report its time"):
        program(tmp_path, "no model\n").speak("Hi.", 10)


def test_utterance_of_unexpected_length_is_rejected() -> None:
    check_length(10 / 12.5, 10)
    with pytest.raises(SystemExit, match=r"8\.0 frames instead of 10"):
        check_length(8 / 12.5, 10)


@pytest.mark.slow
def test_voicewright_runtime_is_measured(endless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICEWRIGHT_MAX_SLOTS", "4")
    row = measure(VoicewrightEngine(str(endless), "cpu"), (2, 8), repeats=1, ttfa_calls=1)
    assert row["ttfa_ms"] > 0
    assert row["4_at_once_audio_s_per_s"] > 0
    assert row["own_mib"] > 0


@pytest.mark.slow
def test_failing_implementation_is_reported_as_a_row_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["peers", "c", "--once", "--model", str(tmp_path), "--python", f"c={sys.executable}"]
    monkeypatch.setattr(sys, "argv", words)
    assert main() == 1
    assert "--program is needed" in capsys.readouterr().out
