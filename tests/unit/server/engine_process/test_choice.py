"""Tests for the choice between an engine in the server's process and in its own process."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.server.launch import has_own_process
from runtime.settings import EngineSettings, ServerSettings, Settings
from runtime.shared import system


@pytest.mark.parametrize(
    ("word", "device", "has_card", "own"),
    [
        ("auto", "auto", True, True),
        ("auto", "cuda", True, True),
        ("auto", "auto", False, False),
        ("auto", "cpu", True, False),
        ("auto", "npu", True, False),
        ("shared", "cuda", True, False),
        ("own", "cpu", False, True),
    ],
)
def test_engine_runs_in_its_own_process_with_a_gpu_by_default(
    monkeypatch: pytest.MonkeyPatch, word: str, device: str, has_card: bool, own: bool
) -> None:
    monkeypatch.setattr(system, "has_nvidia_gpu", lambda: has_card)
    settings = Settings(engine=EngineSettings(device=device), server=ServerSettings(engine_process=word))
    assert has_own_process(settings) is own


def test_gpu_is_detected_by_its_driver_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(system, "_NVIDIA", str(tmp_path))
    assert system.has_nvidia_gpu()
    monkeypatch.setattr(system, "_NVIDIA", f"{tmp_path}/none")
    assert not system.has_nvidia_gpu()
