"""Tests for the store after restarts, kills, full disks and damaged files."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import InvalidSetting, StorageFailed
from studio.errors import NotKept, StoreBusy, StoreFull, TakeDamaged
from studio.settings import StoreSettings
from studio.store.database import FILE, MIGRATIONS
from studio.store.records import TakeChanges, read
from studio.store.store import MOVED_ASIDE, NO_FOLDER, ON_A_SPACE, Store, is_lasting
from studio.store.takes import TakeQuery
from tests.support.keeping import pcm_of, post, save, serving, visitor_client
from tests.support.take_writers import OWNER, fields
from tests.unit.studio.test_takes import refused

ROOT = Path(__file__).resolve().parents[3]
SOUND = pcm_of(0.5)


@contextmanager
def opened(folder: Path, **settings: Any) -> Iterator[Store]:
    store = Store(StoreSettings(data=str(folder), **settings))
    store.open()
    try:
        yield store
    finally:
        store.close()


def add(store: Store, owner: str = OWNER, pcm: bytes = SOUND, reference: bytes | None = None, **said: Any) -> str:
    return str(store.takes.store_take(owner, fields(**said), pcm, reference)["id"])


def ids(store: Store, owner: str = OWNER) -> list[str]:
    return [record["id"] for record in store.takes.page(owner, TakeQuery(limit=100))[0]]


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {
        ".lock",
        *(FILE + suffix for suffix in ("", "-wal", "-shm")),
    }


def test_restart_keeps_all_stored_data(folder: Path) -> None:
    with serving(folder) as address, visitor_client(address) as client:
        record = save(client, SOUND, reference=b"RIFF....WAVE", name="First", favourite=True)
        script = client.put("/studio/scripts/s", json={"name": "Play"}).json()
        client.patch("/studio/me", json={"language": "zh", "theme": "dark"}).raise_for_status()
    with serving(folder) as address, visitor_client(address) as client:
        path = f"/studio/takes/{record['id']}"
        assert client.get(path).json() == record
        assert client.get(f"{path}/audio", params={"format": "pcm"}).content == SOUND
        assert client.get(f"{path}/reference").content == b"RIFF....WAVE"
        assert client.get("/studio/scripts/s").json() == script
        assert client.get("/studio/me").json()["preferences"] == {"language": "zh", "theme": "dark"}


@pytest.mark.slow
def test_killed_writer_leaves_every_take_complete(folder: Path) -> None:
    """Writing processes are killed at random lines of code.

    Takes that the store has confirmed are complete, and other takes leave no files.
    """
    command = [sys.executable, "-m", "tests.support.take_writers", str(folder), "30"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 12, "the writers have hardly written"


def test_take_without_a_database_row_is_recovered(folder: Path) -> None:
    with opened(folder) as store:
        take_id = add(store, reference=b"ID3 sound", text="Found again")
        before = store.takes.find(OWNER, take_id)
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute("DELETE FROM takes")
    connection.close()
    with opened(folder) as store:
        assert store.takes.find(OWNER, take_id) == before
        assert store.takes.pcm(OWNER, take_id)[1] == SOUND
        assert store.takes.reference(OWNER, take_id) == b"ID3 sound"
        with pytest.raises(NotKept):
            store.takes.find("visitor:other", take_id)


def test_database_row_without_a_file_is_removed(folder: Path) -> None:
    with opened(folder) as store:
        lost, other = add(store), add(store)
    (folder / "takes" / f"{lost}.flac").unlink()
    with opened(folder) as store:
        assert ids(store) == [other]


def test_unknown_files_are_left_unchanged(folder: Path) -> None:
    with opened(folder) as store:
        add(store)
    for name in ("holiday.flac", f"{'0' * 32}.flac"):
        (folder / "takes" / name).write_bytes(b"fLaC of somebody else")
    with opened(folder) as store:
        assert len(ids(store)) == 1
    assert {"takes/holiday.flac", f"takes/{'0' * 32}.flac"} <= files(folder)


def test_damaged_take_is_reported_and_never_played(folder: Path) -> None:
    with serving(folder) as address, visitor_client(address) as client:
        record = save(client, SOUND)
        path = folder / "takes" / f"{record['id']}.flac"
        data = bytearray(path.read_bytes())
        data[-len(data) // 4] ^= 0x55
        path.write_bytes(data)
        refused(client.get(f"/studio/takes/{record['id']}/audio"), 500, "take_damaged")
        path.unlink()
        refused(client.get(f"/studio/takes/{record['id']}/audio"), 500, "take_damaged")
    with opened(folder) as store:
        other = add(store)
        (folder / "takes" / f"{other}.flac").write_bytes(b"")
        with pytest.raises(TakeDamaged):
            store.takes.pcm(OWNER, other)


@pytest.mark.slow("torn", "empty header")
@pytest.mark.parametrize("how", ["rubbish", "torn", "empty header"])
def test_damaged_database_is_moved_aside_and_rebuilt_from_the_files(folder: Path, how: str) -> None:
    with opened(folder) as store:
        takes = [add(store, text=f"Sentence {number}" * 50) for number in range(40)]
        store.scripts.put(OWNER, "s", _script())
    path = folder / FILE
    data = bytearray(path.read_bytes())
    assert len(data) > 3 * 4096
    match how:
        case "rubbish":
            path.write_bytes(b"not a database, at all" * 500)
        case "torn":
            data[4096 : len(data) // 2] = os.urandom(len(data) // 2 - 4096)
            path.write_bytes(data)
        case _:
            data[16:100] = bytes(84)
            path.write_bytes(data)
    with serving(folder) as address, visitor_client(address) as client:
        assert client.get("/studio/me").json()["notice"] == MOVED_ASIDE
        found = client.get("/studio/takes", params={"limit": 100}).json()["takes"]
        assert {take["id"] for take in found} == set(takes)
    assert [path for path in folder.iterdir() if path.name.startswith(f"{FILE}.damaged-")]
    with serving(folder) as address, visitor_client(address) as client:
        assert client.get("/studio/me").json()["notice"] is None


def test_database_of_a_newer_version_is_not_changed(folder: Path) -> None:
    with opened(folder):
        pass
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    before = (folder / FILE).read_bytes()
    with pytest.raises(InvalidSetting, match="newer"), opened(folder):
        pass
    assert (folder / FILE).read_bytes() == before


def test_database_upgrade_keeps_a_copy_of_the_old_database(folder: Path) -> None:
    folder.mkdir()
    with sqlite3.connect(folder / FILE) as connection:
        for migration in MIGRATIONS[:4]:
            connection.executescript(migration)
        script = json.dumps({"id": "s", "updated_at": 1.0, "name": "Ä", "lines": []}, ensure_ascii=False)
        connection.execute("INSERT INTO scripts VALUES (?, 's', 1, NULL, ?)", (OWNER, script))
        connection.execute("PRAGMA user_version = 4")
    connection.close()
    with opened(folder) as store:
        assert json.loads(store.scripts.find(OWNER, "s"))["name"] == "Ä"
        assert store.bytes() == len(script.encode())
    copy = folder / f"{FILE}.form-4"
    with sqlite3.connect(copy) as connection:
        assert connection.execute("SELECT id FROM scripts").fetchall() == [("s",)]
    connection.close()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_locked_database_error_is_retryable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studio.store.database.LOCK_TIMEOUT_S", 0.01)
    with opened(folder) as store:
        other = sqlite3.connect(folder / FILE)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy) as refusal:
            add(store)
        assert (refusal.value.code, refusal.value.retryable) == ("store_busy", True)
        other.close()
        add(store)


@pytest.mark.parametrize(
    ("number", "reason"), [(errno.ENOSPC, "full"), (errno.EROFS, "cannot be written"), (errno.EIO, "an error")]
)
def test_full_disk_is_reported_and_leaves_stored_takes_unchanged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    with serving(folder) as address, visitor_client(address) as client:
        first = save(client, SOUND)
        before = files(folder)

        def fail(_: int) -> None:
            raise OSError(number, "no")

        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", fail)
            assert reason in refused(post(client, pcm_of(0.1)), 507, "storage_failed")
        assert files(folder) == before
        assert client.get("/studio/takes").json()["takes"] == [first]
        save(client, SOUND)


def test_failed_save_removes_no_take_from_the_recycle_bin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = random.Random(1).randbytes(700_000)
    with opened(folder, max_store_bytes=2**20) as store:
        first = add(store, pcm=noise)
        store.takes.delete(OWNER, first)
        with monkeypatch.context() as broken:
            broken.setattr("studio.store.take_files.TakeFiles.write", _full)
            with pytest.raises(StorageFailed, match="full"):
                add(store, pcm=noise, reference=b"RIFF sound")
        assert files(folder) == {f"takes/{first}.flac"}
        store.takes.restore(OWNER, first)
        with pytest.raises(StoreFull):
            add(store, pcm=noise)
        assert files(folder) == {f"takes/{first}.flac"}
        store.takes.delete(OWNER, first)
        second = add(store, pcm=noise)
        assert files(folder) == {f"takes/{second}.flac"}


def test_failed_database_write_leaves_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studio.store.database.LOCK_TIMEOUT_S", 0.1)
    with opened(folder) as store:
        first = add(store)
        before = files(folder)
        other = sqlite3.connect(folder / FILE, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")  # Another process keeps the database locked.
        with pytest.raises(StoreBusy):
            add(store)
        other.execute("ROLLBACK")
        other.close()
        assert files(folder) == before
        assert ids(store) == [first]


def test_unusable_store_folder_is_reported_and_speech_works_without_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with serving(tmp_path / "file" / "data") as address, visitor_client(address) as client:
        me = client.get("/studio/me").json()
        assert (me["persistent"], me["temporary_note"]) == (False, NO_FOLDER)
        save(client, SOUND)
    assert (tmp_path / "file").read_text() == "in the way"


# --- Tests of the deletion of old data.


def test_recycle_bin_is_purged_at_startup_and_periodically(folder: Path) -> None:
    with opened(folder, bin_s=3600) as store:
        gone, stays = add(store, reference=b"RIFF one"), add(store, reference=b"RIFF two")
        store.takes.delete(OWNER, gone)
        store.scripts.put(OWNER, "s", _script())
        store.scripts.delete(OWNER, "s")
        store.tidy()
        store.takes.restore(OWNER, gone)
        store.takes.delete(OWNER, gone)
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute("UPDATE takes SET deleted_at = deleted_at - 4000")
        connection.execute("UPDATE scripts SET deleted_at = deleted_at - 4000")
    connection.close()
    with opened(folder, bin_s=3600) as store:
        with pytest.raises(NotKept):
            store.takes.restore(OWNER, gone)
        with pytest.raises(NotKept):
            store.scripts.restore(OWNER, "s")
        assert files(folder) == {f"takes/{stays}.flac", f"references/{hashlib.sha256(b'RIFF two').hexdigest()}"}


def test_visitor_data_expires_and_host_data_does_not(folder: Path) -> None:
    owners = ("host", "visitor:one", "member:two")
    with opened(folder) as store:
        for owner in owners:
            add(store, owner)
            store.scripts.put(owner, "s", _script())
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute("UPDATE takes SET created_ms = created_ms - 31 * 86400000")
        connection.execute("UPDATE scripts SET updated_at = updated_at - 31 * 86400")
    connection.close()
    with opened(folder) as store:
        assert [len(ids(store, owner)) for owner in owners] == [1, 0, 1]
        assert [len(store.scripts.all(owner)) for owner in owners] == [1, 0, 1]


# --- Tests of the warning that the data folder is not persistent.

MOUNTS = """overlay / overlay rw 0 0
/dev/sda1 /data ext4 rw 0 0
tmpfs /data/fast tmpfs rw 0 0
/dev/sdb1 /with\\040space ext4 rw 0 0
"""


@pytest.mark.parametrize(
    ("place", "lasts"),
    [("/data", True), ("/data/a/b", True), ("/data/fast/a", False), ("/home/x", False), ("/with space/a", True)],
)
def test_store_of_a_hugging_face_space_is_persistent_only_on_a_mounted_volume(
    tmp_path: Path, place: str, lasts: bool
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert is_lasting(Path(place), {"SPACE_ID": "me/voices"}, str(mounts)) is lasts
    assert is_lasting(Path(place), {}, str(mounts))


def test_hugging_face_space_without_a_volume_shows_that_data_is_temporary(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPACE_ID", "me/voices")
    monkeypatch.setattr("studio.store.store.is_lasting", lambda _: False)
    with serving(folder) as address, visitor_client(address) as client:
        me = client.get("/studio/me").json()
        assert (me["persistent"], me["temporary_note"]) == (False, ON_A_SPACE)
        assert me["visitor"] == {"kind": "visitor", "name": None}


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "no")


def _script() -> bytes:
    return b'{"name": "Play", "lines": []}'


def _changes(**changes: Any) -> TakeChanges:
    return read(TakeChanges, changes)
