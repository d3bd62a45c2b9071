"""What company costs the first sound, measured once, on a tiny checkpoint."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import company


def test_prompts_read_at_once_and_clients_that_ask_at_once(
    endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, model = tmp_path / "found.json", str(endless)
    asked = ["--clients", "1,3", "--positions", "30,70", "--rounds", "2", "--json", str(found)]
    monkeypatch.setenv("VOICEWRIGHT_DEVICE", "cpu")
    monkeypatch.setattr(sys, "argv", ["company", "--model", model, *asked])
    assert company.main() == 0
    rows = json.loads(found.read_text("utf-8"))
    points = [(positions, clients) for positions in (30, 70) for clients in (1, 3)]
    assert [row["clients"] for row in rows] == 2 * [clients for _, clients in points]
    read, heard = [row for row in rows if row["what"] == "read"], [row for row in rows if row["what"] == "first_pcm"]
    assert all(0 < row["p50_ms"] <= row["slowest_ms"] for row in read)
    for row, (positions, clients) in zip(heard, points, strict=True):
        assert row["replies"] == 2 * clients
        assert all(positions <= length <= positions + 3 for length in row["prompt_tokens"])
        assert 0 < row["p50_ms"] <= row["p95_ms"] <= row["slowest_ms"]
