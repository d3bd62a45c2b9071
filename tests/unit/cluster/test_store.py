"""Tests for the shared file store: changes reach all replicas, and files are complete."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from runtime.cluster.store import KEYS_FILE, VOICES, Folder, Mirror, store_of
from runtime.settings import ClusterSettings, Settings


@pytest.fixture
def two(tmp_path: Path) -> tuple[Mirror, Mirror]:
    url = f"file://{tmp_path}/store"
    return Mirror.open(url, 0.5), Mirror.open(url, 0.5)


def test_voice_changes_reach_the_other_replica_at_its_next_synchronisation(two: tuple[Mirror, Mirror]) -> None:
    here, there = two
    name = f"{VOICES}/a.voice"
    (here.local / name).write_bytes(b"first")
    here.synchronise()
    there.synchronise()
    assert (there.local / name).read_bytes() == b"first"
    (there.local / name).write_bytes(b"renamed")
    there.synchronise()
    here.synchronise()
    assert (here.local / name).read_bytes() == b"renamed"
    here.synchronise()
    assert (here.local / name).read_bytes() == b"renamed", "nothing is carried back"
    (here.local / name).unlink()
    here.synchronise()
    there.synchronise()
    assert not (there.local / name).exists()
    there.synchronise()
    here.synchronise()
    assert not (here.local / name).exists(), "it does not come back"


def test_owner_folders_are_synchronised_without_index_and_partial_files(
    two: tuple[Mirror, Mirror], tmp_path: Path
) -> None:
    here, there = two
    (here.local / VOICES / "owners/abc").mkdir(parents=True)
    (here.local / VOICES / "owners/abc/b.voice").write_bytes(b"own")
    (here.local / VOICES / "index.sqlite").write_bytes(b"ours")
    (here.local / VOICES / ".c.voice").write_bytes(b"half")
    here.synchronise()
    there.synchronise()
    found = sorted(path.relative_to(there.local).as_posix() for path in there.local.rglob("*") if path.is_file())
    assert found == [f"{VOICES}/owners/abc/b.voice"]
    assert sorted(path.name for path in (tmp_path / "store").rglob("*") if path.is_file()) == ["b.voice"]


def test_keys_are_read_from_the_store_and_never_written_to_it(two: tuple[Mirror, Mirror], tmp_path: Path) -> None:
    here, _ = two
    assert "VOICEWRIGHT_API_KEYS_FILE" not in here.environment
    (tmp_path / "store" / KEYS_FILE).write_text("one\n")
    third = Mirror.open(f"file://{tmp_path}/store", 0.5)
    assert Path(third.environment["VOICEWRIGHT_API_KEYS_FILE"]).read_text() == "one\n"
    (third.local / KEYS_FILE).write_text("mine\n")
    third.synchronise()
    assert (tmp_path / "store" / KEYS_FILE).read_text() == "one\n"
    (tmp_path / "store" / KEYS_FILE).write_text("one\ntwo\n")
    third.synchronise()
    assert (third.local / KEYS_FILE).read_text() == "one\ntwo\n"


def test_concurrent_changes_converge_to_one_version(two: tuple[Mirror, Mirror], tmp_path: Path) -> None:
    name = f"{VOICES}/a.voice"
    for mirror, words in zip(two, (b"here", b"there, longer"), strict=True):
        (mirror.local / name).write_bytes(words)
    for _ in range(2):
        for mirror in two:
            mirror.synchronise()
    kept = {(mirror.local / name).read_bytes() for mirror in two} | {(tmp_path / "store" / name).read_bytes()}
    assert kept == {b"there, longer"}


class Meddling:
    """File system that runs a function once, directly after the call of a chosen method."""

    def __init__(self, files: Any, call: str, action: Callable[[], object]) -> None:
        self._files, self._call, self._action = files, call, action

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._files, name)
        if name != self._call:
            return real

        def call(*arguments: Any, **kwargs: Any) -> Any:
            self._call = ""
            result = real(*arguments, **kwargs)
            self._action()
            return result

        return call


@pytest.mark.parametrize(
    ("first", "command", "changed"),
    [("replica", "mv", "store"), ("store", "cat_file", "store"), ("replica", "mv", "replica")],
    ids=["another upload", "another download", "change here"],
)
def test_file_changed_during_its_transfer_is_transferred_again(
    two: tuple[Mirror, Mirror], tmp_path: Path, first: str, command: str, changed: str
) -> None:
    here, _ = two
    name = f"{VOICES}/a.voice"
    files = {"replica": here.local / name, "store": tmp_path / "store" / name}
    files[first].write_bytes(b"first")
    here.files = Meddling(here.files, command, lambda: files[changed].write_bytes(b"second"))
    here.synchronise()
    here.synchronise()
    assert [file.read_bytes() for file in files.values()] == [b"second"] * 2


def test_synchronisation_outlasting_a_shutdown_deletes_no_file(two: tuple[Mirror, Mirror], tmp_path: Path) -> None:
    here, _ = two
    name = f"{VOICES}/a.voice"
    (here.local / name).write_bytes(b"sound")
    here.synchronise()
    asked, answered = threading.Event(), threading.Event()

    def slow() -> None:
        asked.set()
        assert answered.wait(60)

    here.files = Meddling(here.files, "find", slow)
    looking = threading.Thread(target=here.synchronise)
    looking.start()
    assert asked.wait(60)
    ending = threading.Thread(target=lambda: asyncio.run(here.close()))
    ending.start()
    ending.join(0.5)  # Without waiting for the thread, close() would delete the folder in this time.
    answered.set()
    for thread in (looking, ending):
        thread.join(60)
        assert not thread.is_alive()
    assert (tmp_path / "store" / name).read_bytes() == b"sound"
    assert not here.local.exists()


def test_object_storage_is_synchronised_like_a_folder() -> None:
    url = "memory://voicewright-test"
    try:
        here, there = Mirror.open(url, 0.5), Mirror.open(url, 0.5)
        (here.local / VOICES / "a.voice").write_bytes(b"sound")
        here.synchronise()
        there.synchronise()
        assert (there.local / VOICES / "a.voice").read_bytes() == b"sound"
    finally:
        fsspec.filesystem("memory").rm("/voicewright-test", recursive=True)


def test_voices_folder_is_used_without_a_store() -> None:
    assert isinstance(store_of(Settings()), Folder)
    with pytest.raises(ValueError, match="Protocol not known"):
        store_of(Settings(cluster=ClusterSettings(store="nowhere://x")))
