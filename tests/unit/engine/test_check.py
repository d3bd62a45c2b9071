"""Checkpoints are checked without being loaded: what loading would refuse, and whether there is memory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.cli import main
from runtime.device.cpu import CpuDevice
from runtime.engine import memory
from runtime.engine.check import Checked, check
from runtime.errors import CheckpointInvalid, CheckpointMissing, CheckpointTooLarge, InvalidSetting, SetUpError
from runtime.settings import Settings
from tests.conftest import FolderOf

WEIGHTS, SOUND = "model.safetensors", "speech_tokenizer/model.safetensors"


@pytest.fixture
def folder(folder_of: FolderOf, tmp_path: Path) -> Path:
    """A checkpoint of its own, to be spoiled."""
    return Path(shutil.copytree(folder_of("brief", "base"), tmp_path / "spoiled"))


def checked(*folders: Path) -> Checked:
    return check(Settings(models=tuple(map(str, folders))))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def rename_key(path: Path) -> None:
    data = path.read_bytes()
    assert b"talker.codec_head" in data
    path.write_bytes(data.replace(b"talker.codec_head", b"talker.codec_tail"))


def damage_json(path: Path) -> None:
    path.write_text(path.read_text()[:-20])


def test_what_can_be_loaded_passes_without_a_weight_being_read(folder_of: FolderOf) -> None:
    base, custom = (folder_of("brief", mode) for mode in ("base", "custom_voice"))
    told = checked(base, custom)
    assert told.modes == ("base", "custom_voice")
    assert told.fits_beside
    assert told.need > checked(base).need > 2 * (base / WEIGHTS).stat().st_size


@pytest.mark.parametrize(
    ("name", "spoil", "error"),
    [
        ("config.json", Path.unlink, CheckpointMissing),
        ("config.json", damage_json, CheckpointInvalid),
        ("speech_tokenizer/config.json", Path.unlink, CheckpointMissing),
        ("vocab.json", Path.unlink, CheckpointMissing),
        (WEIGHTS, Path.unlink, CheckpointMissing),
        (WEIGHTS, cut, CheckpointInvalid),
        (WEIGHTS, rename_key, CheckpointInvalid),
        (SOUND, Path.unlink, CheckpointMissing),
        (SOUND, cut, CheckpointInvalid),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_what_could_not_be_loaded_is_refused(
    folder: Path, name: str, spoil: Callable[[Path], None], error: type[SetUpError]
) -> None:
    spoil(folder / name)
    with pytest.raises(error):
        checked(folder)


def test_two_that_serve_the_same_are_refused(folder_of: FolderOf) -> None:
    with pytest.raises(InvalidSetting):
        checked(folder_of("brief", "base"), folder_of("tiny", "base"))


def test_what_is_larger_than_the_memory_is_refused_and_what_is_larger_than_what_is_free_does_not_fit_beside(
    folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of("brief", "base")
    need = checked(folder).need
    monkeypatch.setattr(memory, "memory_of", lambda device: (2 * need, need - 1))
    assert not checked(folder).fits_beside
    monkeypatch.setattr(memory, "memory_of", lambda device: (memory.PROCESS, memory.PROCESS))
    with pytest.raises(CheckpointTooLarge, match="GiB"):
        checked(folder)


def test_what_a_container_shares_in_memory_counts_as_no_file() -> None:
    """As Linux writes memory.stat: Ray's objects lie in /dev/shm, are counted as files and are never given back."""
    lines = ["anon 1000", "file 900", "kernel 50", "shmem 700", "file_mapped 10"]
    assert memory.files_in(lines) == 200
    assert memory.files_in([]) == 0


def test_memory_is_what_the_system_says() -> None:
    total, free = memory.memory_of(CpuDevice())
    assert 0 < free <= total <= CpuDevice().total_bytes()


def test_the_command_says_it_as_json_and_loads_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runtime", "--check", "--model", str(folder), "--device", "cpu"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["names"], told["modes"], told["fits_beside"]) == (["spoiled"], ["base"], True)
    cut(folder / WEIGHTS)
    assert main(["runtime", "--check", "--model", str(folder), "--device", "cpu"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert "[checkpoint_invalid]" in said.err
