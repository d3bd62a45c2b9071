"""Tests for downloads from the Hub: requests, resumed downloads and refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import DiskFull
from runtime.model.checkpoints import hub as hub_module
from runtime.model.checkpoints.hub import HubFile, HubListing, require_disk_space
from tests.conftest import FolderOf
from tests.support.hub import Hub, serving

CUSTOM = "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice"
BASE = "Qwen/Qwen3-TTS-12Hz-0.6B-Base"
WEIGHTS = "model.safetensors"


@pytest.fixture
def hub(folder_of: FolderOf) -> Iterator[Hub]:
    folders = {CUSTOM: folder_of("brief", "custom_voice"), BASE: folder_of("brief", "base")}
    with serving(Hub(folders)) as running:
        yield running


def environment(hub: Hub, home: Path) -> dict[str, str]:
    return {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(home), "OMP_NUM_THREADS": "1"}


def fetch(hub: Hub, home: Path, *models: str) -> list[dict[str, Any]]:
    """Run `voicewright fetch` for these checkpoints, and return its JSON events.

    The last event is the result.
    """
    done = subprocess.run(
        [sys.executable, "-m", "runtime.cli", "fetch", "--json", *models],
        env=environment(hub, home),
        capture_output=True,
        text=True,
        check=False,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def partial(home: Path) -> list[int]:
    return [path.stat().st_size for path in home.rglob("*.incomplete")]


@pytest.mark.slow
def test_interrupted_download_resumes_and_shared_files_are_fetched_once(hub: Hub, tmp_path: Path) -> None:
    hub.break_after = 200_000
    said = fetch(hub, tmp_path, CUSTOM, BASE)
    assert [event["id"] for event in said if event["event"] == "done"] == [CUSTOM, BASE]
    assert [event["modes"] for event in said if event["event"] == "checked"] == [["custom_voice"], ["base"]]
    first, again, *rest = hub.weights_asked()
    assert (first, again.startswith("bytes="), rest) == ("", True, ["", ""]), "the speech tokenizer is asked for once"
    assert not partial(tmp_path)
    # The folder is the cache of huggingface_hub, so the loader finds the weights and does not request them again.
    code = f"from runtime.model.checkpoints.checkpoint import resolve_folder; print(resolve_folder('{BASE}'))"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, env=environment(hub, tmp_path), capture_output=True, text=True, check=True)
    fetched = Path(found.stdout.strip())
    assert (fetched / WEIGHTS).read_bytes() == (hub.repositories[BASE] / WEIGHTS).read_bytes()
    assert len(hub.weights_asked()) == 4


@pytest.mark.slow
def test_killed_download_is_resumed_by_the_next_process(hub: Hub, tmp_path: Path) -> None:
    hub.rate, hub.hold_at = 400_000, 600_000
    command = [sys.executable, "-m", "runtime.cli", "fetch", "--json", CUSTOM]
    with subprocess.Popen(command, env=environment(hub, tmp_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line).get("got", 0) > 200_000:
                break
        process.kill()
    (left,) = partial(tmp_path)
    assert left > 100_000
    hub.rate = hub.hold_at = None
    hub.asked.clear()
    said = fetch(hub, tmp_path, CUSTOM)
    assert said[0]["got"] >= left, "what is here is counted from the beginning"
    assert said[-1]["event"] == "done"
    assert hub.weights_asked()[0] == f"bytes={left}-"


@pytest.mark.slow
def test_download_restarts_from_zero_if_the_hub_ignores_byte_ranges(hub: Hub, tmp_path: Path) -> None:
    hub.break_after = 200_000
    hub.knows_ranges = False
    assert fetch(hub, tmp_path, CUSTOM)[-1]["event"] == "done"


@pytest.mark.parametrize(
    ("trouble", "code", "word"),
    [
        ({"status": 503}, "hub_unreachable", "503"),
        ({"gated": {CUSTOM}}, "hub_refused", "agreement"),
        ({"is_damaged": True}, "download_damaged", "was deleted"),
        ({"repositories": {}}, "checkpoint_missing", "owner/name"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hub_errors_are_one_line_with_a_code(
    hub: Hub, tmp_path: Path, trouble: dict[str, Any], code: str, word: str
) -> None:
    for name, value in trouble.items():
        setattr(hub, name, value)
    last = fetch(hub, tmp_path, CUSTOM)[-1]
    assert (last["event"], last["code"]) == ("failed", code)
    assert word in last["message"]
    assert not partial(tmp_path), "nothing that is wrong is gone on from"


def test_repository_without_a_checkpoint_is_refused_before_downloading_weights(
    hub: Hub, tmp_path: Path, folder_of: FolderOf
) -> None:
    folder = tmp_path / "other"
    (folder / "speech_tokenizer").mkdir(parents=True)
    for path in folder_of("brief", "base").rglob("*"):
        if path.is_file():
            (folder / path.relative_to(folder_of("brief", "base"))).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    config["tokenizer_type"] = "another"
    (folder / "config.json").write_text(json.dumps(config))
    hub.repositories["else/where"] = folder
    last = fetch(hub, tmp_path / "home", CUSTOM, "else/where")[-1]
    assert (last["code"], hub.weights_asked()) == ("checkpoint_unsupported", [])


def test_download_larger_than_the_disk_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hub_module, "cache_folder", lambda: tmp_path)
    common = HubFile("speech_tokenizer/model.safetensors", 4 * 10**9, "c" * 64)
    both = [HubListing(name, None, "0" * 40, (common, HubFile(WEIGHTS, 3 * 10**9, name * 64))) for name in "ab"]
    monkeypatch.setattr(hub_module, "free_cache_bytes", lambda: 10 * 10**9)
    require_disk_space(both)
    monkeypatch.setattr(hub_module, "free_cache_bytes", lambda: 10 * 10**9 - 1)
    with pytest.raises(DiskFull) as refused:
        require_disk_space(both)
    assert (refused.value.code, refused.value.facts["need"]) == ("disk_full", 10.0)
