"""What one replica keeps, others have; files are whole on either side."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from runtime.cluster.store import KEYS, VOICES, Folder, Mirror, store_of
from runtime.settings import ClusterSettings, Settings


@pytest.fixture
def two(tmp_path: Path) -> tuple[Mirror, Mirror]:
    url = f"file://{tmp_path}/store"
    return Mirror.open(url, 0.5), Mirror.open(url, 0.5)


def test_a_voice_of_one_is_with_the_other_at_its_next_look_and_so_is_its_end(two: tuple[Mirror, Mirror]) -> None:
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


def test_owners_have_their_folders_and_the_index_and_parts_of_files_stay_where_they_are(
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


def test_keys_come_from_the_store_and_never_go_there(two: tuple[Mirror, Mirror], tmp_path: Path) -> None:
    here, _ = two
    assert "VOICEWRIGHT_API_KEYS_FILE" not in here.environment
    (tmp_path / "store" / KEYS).write_text("one\n")
    third = Mirror.open(f"file://{tmp_path}/store", 0.5)
    assert Path(third.environment["VOICEWRIGHT_API_KEYS_FILE"]).read_text() == "one\n"
    (third.local / KEYS).write_text("mine\n")
    third.synchronise()
    assert (tmp_path / "store" / KEYS).read_text() == "one\n"
    (tmp_path / "store" / KEYS).write_text("one\ntwo\n")
    third.synchronise()
    assert (third.local / KEYS).read_text() == "one\ntwo\n"


def test_of_two_changes_at_once_one_stays_everywhere(two: tuple[Mirror, Mirror], tmp_path: Path) -> None:
    name = f"{VOICES}/a.voice"
    for mirror, words in zip(two, (b"here", b"there, longer"), strict=True):
        (mirror.local / name).write_bytes(words)
    for _ in range(2):
        for mirror in two:
            mirror.synchronise()
    kept = {(mirror.local / name).read_bytes() for mirror in two} | {(tmp_path / "store" / name).read_bytes()}
    assert kept == {b"there, longer"}


class Meddling:
    """A file system during whose calls something else happens, once."""

    def __init__(self, files: Any, call: str, deed: Callable[[], object]) -> None:
        self._files, self._call, self._deed = files, call, deed

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._files, name)
        if name != self._call:
            return real

        def call(*arguments: Any, **words: Any) -> Any:
            self._call = ""
            result = real(*arguments, **words)
            self._deed()
            return result

        return call


def test_what_another_carries_while_one_carries_is_fetched(two: tuple[Mirror, Mirror], tmp_path: Path) -> None:
    here, _ = two
    name = f"{VOICES}/a.voice"
    (here.local / name).write_bytes(b"here")
    here.files = Meddling(here.files, "mv", lambda: (tmp_path / "store" / name).write_bytes(b"another's"))
    here.synchronise()
    here.synchronise()
    assert (here.local / name).read_bytes() == b"another's"


def test_what_changes_in_the_store_while_it_is_fetched_is_fetched_again(
    two: tuple[Mirror, Mirror], tmp_path: Path
) -> None:
    here, _ = two
    name = f"{VOICES}/a.voice"
    (tmp_path / "store" / name).write_bytes(b"first")
    here.files = Meddling(here.files, "cat_file", lambda: (tmp_path / "store" / name).write_bytes(b"second"))
    here.synchronise()
    here.synchronise()
    assert (here.local / name).read_bytes() == b"second"


def test_what_changes_here_while_it_is_carried_is_carried_again(two: tuple[Mirror, Mirror], tmp_path: Path) -> None:
    here, _ = two
    name = f"{VOICES}/a.voice"
    (here.local / name).write_bytes(b"first")
    here.files = Meddling(here.files, "mv", lambda: (here.local / name).write_bytes(b"second"))
    here.synchronise()
    here.synchronise()
    assert (tmp_path / "store" / name).read_bytes() == b"second"


def test_a_look_that_is_slower_than_the_end_deletes_nothing(two: tuple[Mirror, Mirror], tmp_path: Path) -> None:
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
    ending.join(0.5)  # long enough to delete the folder, if it waits for nobody
    answered.set()
    for thread in (looking, ending):
        thread.join(60)
        assert not thread.is_alive()
    assert (tmp_path / "store" / name).read_bytes() == b"sound"
    assert not here.local.exists()


def test_objects_in_memory_serve_as_well_as_files() -> None:
    url = "memory://voicewright-test"
    try:
        here, there = Mirror.open(url, 0.5), Mirror.open(url, 0.5)
        (here.local / VOICES / "a.voice").write_bytes(b"sound")
        here.synchronise()
        there.synchronise()
        assert (there.local / VOICES / "a.voice").read_bytes() == b"sound"
    finally:
        fsspec.filesystem("memory").rm("/voicewright-test", recursive=True)


def test_without_a_store_the_folder_of_the_voices_is_it() -> None:
    assert isinstance(store_of(Settings()), Folder)
    with pytest.raises(ValueError, match="Protocol not known"):
        store_of(Settings(cluster=ClusterSettings(store="nowhere://x")))
