"""Test of stored recordings: processes that write them are killed at random lines.

Command: ``python -m tests.support.take_writers FOLDER TIMES``.

A process is killed before a random line of the writing code. Therefore, the test also covers very short intervals.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import random
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from studio.settings import StoreSettings
from studio.store.database import FILE
from studio.store.records import TakeFields, read
from studio.store.store import Store
from studio.store.takes import TakeQuery
from tests.support.keeping import create_take, pcm_of

OWNER = "host"
KEPT = 4
WRITING = ("runtime/shared/files.py", "store/database.py", "store/sound_files.py", "store/takes.py")

Trace = Callable[[FrameType, str, Any], Any]


def fields(**changes: object) -> TakeFields:
    return read(TakeFields, create_take(**changes))


def killed_after(lines: int) -> None:
    """Kill this process with SIGKILL after it has executed `lines` lines of the storage code."""
    left = lines

    def line(_: FrameType, event: str, __: object) -> Trace | None:
        nonlocal left
        left -= event == "line"
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return line

    def call(frame: FrameType, _: str, __: object) -> Trace | None:
        return line if frame.f_code.co_filename.endswith(WRITING) else None

    sys.settrace(call)


def write(store: Store, report: int, lines: int) -> None:
    """Store recordings and delete old recordings until this process is killed.

    The id of each stored recording is written to the file descriptor `report`.
    """
    sounds = [pcm_of(0.5, seed) for seed in range(3)]
    killed_after(lines)
    store.open()
    for number in itertools.count():
        reference = b"RIFF" + bytes([number % 5]) * 50_000
        if store.takes.space(OWNER)["takes"] >= KEPT:
            store.takes.free(OWNER, 1)
        record = store.takes.store_take(OWNER, fields(text=f"Sentence {number}"), sounds[number % 3], reference)
        os.write(report, f"{record['id']}\n".encode())
        if number % 4 == 3:
            store.takes.delete(OWNER, record["id"])
            os.write(report, b"deleted\n")


def check(store: Store, reported: list[str]) -> None:
    """Check that all stored recordings are complete, and that the last reported one exists."""
    records, _ = store.takes.page(OWNER, TakeQuery(limit=100))
    for record in records:
        _, pcm = store.takes.pcm(OWNER, record["id"])
        assert hashlib.sha256(pcm).hexdigest() == record["sha256"]
        assert len(store.takes.reference(OWNER, record["id"])) == 50_004
    kept = {record["id"] for record in records}
    if reported and reported[-1] != "deleted":
        # Another process may have deleted the take before its ID was reported.
        assert reported[-1] in kept or store.takes.restore(OWNER, reported[-1])
    assert not [path for path in store.folder.rglob("*.tmp")]
    with contextlib.closing(sqlite3.connect(store.folder / FILE)) as connection:
        rows = {take_id for (take_id,) in connection.execute("SELECT id FROM takes")}
    assert {path.stem for path in (store.folder / "takes").iterdir()} == rows >= kept


def kill_writers(folder: Path, times: int) -> int:
    """Start a process that stores recordings, kill it, and check the stored data, many times.

    Args:
        folder: Folder of the storage.
        times: Number of rounds.

    Returns:
        Number of recordings that were stored.
    """
    chance, count = random.Random(7), 0
    settings = StoreSettings(data=str(folder), max_takes=KEPT)
    for _ in range(times):
        reads, writes = os.pipe()
        lines_to_live = chance.randrange(2000)
        if (child := os.fork()) == 0:
            os.close(reads)
            write(Store(settings), writes, lines_to_live)
        os.close(writes)
        with os.fdopen(reads) as pipe:
            lines = pipe.read().split("\n")[:-1]
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        count += len(lines)
        store = Store(settings)
        store.open()
        check(store, lines)
        store.close()
    with_one_more(store)
    return count


def with_one_more(store: Store) -> None:
    """Check that one more recording can be stored.

    Recordings are deleted first if the maximum number is reached.
    """
    store.open()
    store.takes.free(OWNER, max(0, store.takes.space(OWNER)["takes"] - KEPT + 1))
    store.takes.store_take(OWNER, fields(), pcm_of(0.1))
    assert len(store.takes.page(OWNER, TakeQuery(limit=100))[0]) == KEPT
    store.close()


if __name__ == "__main__":
    print(kill_writers(Path(sys.argv[1]), int(sys.argv[2])))
