"""Tests for the commands in docs/npu.md with a simulated NPU."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engine import __main__ as engine
from benchmarks.quality import __main__ as quality
from tests.conftest import FolderOf
from tests.support.brief import limit_code2wav_graphs
from tests.support.npu_backend import register
from tests.support.torch_npu_stand_in import StandIn, install

__all__ = ["limit_code2wav_graphs"]


@pytest.fixture
def ascend(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setattr("runtime.device.npu.WARM_UP_RUNS", 1)
    monkeypatch.setattr("runtime.engine.execution.prompt_batches.CHUNK_POSITIONS", (64, 256))
    yield install(monkeypatch)
    register(None)


@pytest.mark.slow
@pytest.mark.usefixtures("limit_code2wav_graphs", "ascend")
def test_npu_codes_equal_cpu_codes_and_model_parts_are_timed(
    folder_of: FolderOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, file = folder_of("brief", "custom_voice"), tmp_path / "json"

    def run(tool: Any, words: str) -> dict[str, list[dict[str, Any]]]:
        monkeypatch.setattr("sys.argv", [*words.split(), "--model", str(model), "--json", str(file)])
        assert tool.main() == 0
        return json.loads(file.read_text("utf-8"))["tables"]

    codes = f"quality codes --dtype float32 --rows 1 --frames 4 --baseline {tmp_path / 'cpu.npz'}"
    run(quality, f"{codes} --device cpu")
    tables = run(quality, f"{codes} --device npu --variant graphs --variant eager:EAGER=1")
    assert [(row["variant"], row["texts"], row["codes_differ"]) for row in tables["against the first"]] == [
        ("graphs", 1, 0),
        ("eager", 1, 0),
    ]
    monkeypatch.setattr("benchmarks.engine.lower_bounds.GPU_SIDE", 64)
    monkeypatch.setattr("benchmarks.engine.lower_bounds.GPU_BYTES", 2**16)
    tables = run(engine, "engine --device npu --batches 1 --contexts 64 --prompts 16 --frames 2 --length 300")
    assert tables["frames"][0]["frame_ms"] > 0
    assert tables["start"][0]["graphs"] > 0


def test_missing_npu_is_reported_in_one_line(
    ascend: StandIn, folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ascend.npu.available = False
    model = str(folder_of("brief", "custom_voice"))
    monkeypatch.setattr("sys.argv", ["engine", "--device", "npu", "--model", model])
    assert engine.main() == 2
    assert "Device npu cannot be used" in capsys.readouterr().err
