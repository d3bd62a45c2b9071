"""What one replica keeps, others have; files are whole on either side."""

from __future__ import annotations

from pathlib import Path

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
    here.look()
    there.look()
    assert (there.local / name).read_bytes() == b"first"
    (there.local / name).write_bytes(b"renamed")
    there.look()
    here.look()
    assert (here.local / name).read_bytes() == b"renamed"
    here.look()
    assert (here.local / name).read_bytes() == b"renamed", "nothing is carried back"
    (here.local / name).unlink()
    here.look()
    there.look()
    assert not (there.local / name).exists()
    there.look()
    here.look()
    assert not (here.local / name).exists(), "it does not come back"


def test_owners_have_their_folders_and_the_index_and_parts_of_files_stay_where_they_are(
    two: tuple[Mirror, Mirror], tmp_path: Path
) -> None:
    here, there = two
    (here.local / VOICES / "owners/abc").mkdir(parents=True)
    (here.local / VOICES / "owners/abc/b.voice").write_bytes(b"own")
    (here.local / VOICES / "index.sqlite").write_bytes(b"ours")
    (here.local / VOICES / ".c.voice").write_bytes(b"half")
    here.look()
    there.look()
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
    third.look()
    assert (tmp_path / "store" / KEYS).read_text() == "one\n"
    (tmp_path / "store" / KEYS).write_text("one\ntwo\n")
    third.look()
    assert (third.local / KEYS).read_text() == "one\ntwo\n"


def test_of_two_changes_at_once_one_stays_everywhere(two: tuple[Mirror, Mirror], tmp_path: Path) -> None:
    name = f"{VOICES}/a.voice"
    for mirror, words in zip(two, (b"here", b"there, longer"), strict=True):
        (mirror.local / name).write_bytes(words)
    for _ in range(2):
        for mirror in two:
            mirror.look()
    kept = {(mirror.local / name).read_bytes() for mirror in two} | {(tmp_path / "store" / name).read_bytes()}
    assert kept == {b"there, longer"}


def test_objects_in_memory_serve_as_well_as_files() -> None:
    url = "memory://voicewright-test"
    try:
        here, there = Mirror.open(url, 0.5), Mirror.open(url, 0.5)
        (here.local / VOICES / "a.voice").write_bytes(b"sound")
        here.look()
        there.look()
        assert (there.local / VOICES / "a.voice").read_bytes() == b"sound"
    finally:
        fsspec.filesystem("memory").rm("/voicewright-test", recursive=True)


def test_without_a_store_the_folder_of_the_voices_is_it() -> None:
    assert isinstance(store_of(Settings()), Folder)
    with pytest.raises(ValueError, match="Protocol not known"):
        store_of(Settings(cluster=ClusterSettings(store="nowhere://x")))
