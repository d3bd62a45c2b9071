"""Tests for the selection of files to download from the file list of a Hub repository.

A checkpoint that cannot be loaded is reported before its weights are downloaded.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.errors import CheckpointMissing, CheckpointUnsupported, HubRefused, HubUnreachable, SetUpError
from runtime.model.checkpoints.checkpoint import resolve_folder
from tests.conftest import FolderOf
from tests.support.changed_checkpoint import shard
from tests.support.hub import COMMIT, Hub, asked_here

NAME = "somebody/Fine-Tune"
OTHERS = ("README.md", "model.fp16.safetensors", "pytorch_model.bin", "checkpoint-500/model.safetensors", "tool.py")


@pytest.fixture
def folder(folder_of: FolderOf, tmp_path: Path) -> Path:
    """Return the folder of the repository that the fake Hub serves."""
    return Path(shutil.copytree(folder_of("brief", "custom_voice"), tmp_path / "there"))


@pytest.fixture
def hub(folder: Path, tmp_path: Path) -> Iterator[Hub]:
    with asked_here(Hub({NAME: folder}), tmp_path / "here") as running:
        yield running


def names_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("revision", ["", f"@{COMMIT}"])
def test_shards_of_any_name_are_fetched_and_other_files_are_not(hub: Hub, folder: Path, revision: str) -> None:
    shard(folder, 2, "talker")
    wanted = names_in(folder) - {"preprocessor_config.json", "speech_tokenizer/configuration.json"}
    for name in OTHERS:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"\0" * 1000)
    fetched = resolve_folder(NAME + revision)
    assert names_in(fetched) == wanted
    assert {"talker-00001-of-00002.safetensors", "model.safetensors.index.json"} < wanted


def test_cached_files_are_used_if_the_hub_is_unreachable(hub: Hub) -> None:
    hub.status = 503
    with pytest.raises(HubUnreachable):
        resolve_folder(NAME)
    hub.status = None
    fetched = resolve_folder(NAME)
    hub.status = 503
    assert resolve_folder(NAME) == fetched


@pytest.mark.parametrize(
    ("gone", "come", "error", "word"),
    [
        ("model.safetensors", "pytorch_model.bin", CheckpointUnsupported, "pytorch_model.bin is a pickle"),
        ("model.safetensors", "adapter_model.safetensors", CheckpointUnsupported, "adapter"),
        ("speech_tokenizer/model.safetensors", "x", CheckpointMissing, f"{NAME}/speech_tokenizer: model.safetensors"),
        ("generation_config.json", "x", CheckpointMissing, "generation_config.json"),
    ],
)
def test_unloadable_checkpoint_is_reported_before_downloading(
    hub: Hub, folder: Path, gone: str, come: str, error: type[SetUpError], word: str
) -> None:
    (folder / gone).unlink()
    (folder / come).write_bytes(b"\0" * 10)
    with pytest.raises(error, match=word):
        resolve_folder(NAME)
    assert [path for _, path, _ in hub.asked] == [f"/api/models/{NAME}"]


@pytest.mark.parametrize(
    ("name", "gated", "error"),
    [
        ("nobody/nothing", False, CheckpointMissing),
        (f"{NAME}@other", False, CheckpointMissing),
        (NAME, True, HubRefused),
    ],
)
def test_error_of_the_hub_is_reported_in_one_sentence(
    hub: Hub, name: str, gated: bool, error: type[SetUpError]
) -> None:
    hub.gated = {NAME} if gated else set()
    with pytest.raises(error) as caught:
        resolve_folder(name)
    assert "\n" not in str(caught.value)
