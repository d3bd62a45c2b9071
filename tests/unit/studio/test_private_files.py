"""Tests that only the studio's user can read the studio's files and folders."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from pathlib import Path

import pytest

from runtime.voices.library import Library
from studio.__main__ import main
from studio.settings import StudioSettings
from studio.store.database import FILE, MIGRATIONS
from studio.store.voice_bin import VoiceBin
from tests.support.take_writers import OWNER
from tests.support.voices import create_voice
from tests.unit.studio.test_durability import add, opened


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_stored_files_are_readable_by_their_owner_only(folder: Path) -> None:
    before = os.umask(0)
    try:
        with opened(folder) as store:
            add(store, reference=b"RIFF")
            VoiceBin(folder / "deleted-voices", 60).put(OWNER, "v", b"voice")
            library = Library(folder / "voices")
            library.register_voice(create_voice())
            library.close()
            kept_paths = [folder, *folder.rglob("*")]
            assert len(kept_paths) > 10
            assert {path: oct(path.stat().st_mode) for path in kept_paths if path.stat().st_mode & 0o077} == {}
    finally:
        os.umask(before)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_copied_file_is_private_from_creation(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    with sqlite3.connect(folder / FILE) as connection:
        connection.executescript(f"{MIGRATIONS[0]} PRAGMA user_version = 1;")
    connection.close()
    # A later chmod does not help against a process that has already opened the file.
    monkeypatch.setattr(Path, "chmod", lambda path, mode: None)
    before = os.umask(0)
    try:
        with opened(folder):
            assert stat.S_IMODE((folder / f"{FILE}.form-1").stat().st_mode) == 0o600
    finally:
        os.umask(before)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_files_written_by_gradio_are_private(monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[Path] = []

    async def serve(_: StudioSettings) -> int:
        folders.append(Path(os.environ["GRADIO_TEMP_DIR"]))
        assert stat.S_IMODE(folders[0].stat().st_mode) == 0o700
        return 0

    monkeypatch.delenv("GRADIO_TEMP_DIR", raising=False)
    monkeypatch.setattr("studio.__main__.serve", serve)
    for name in ("log_warnings", "limit_repeated_lines", "logging.basicConfig"):
        monkeypatch.setattr(f"studio.__main__.{name}", lambda **_: None)
    monkeypatch.setattr(sys, "argv", ["app.py"])
    assert main() == 0
    assert not folders[0].exists()
    monkeypatch.delenv("GRADIO_TEMP_DIR")
