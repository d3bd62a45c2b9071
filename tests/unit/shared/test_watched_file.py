"""Tests for a watched file: changes are loaded, and a file with errors gives the default."""

from __future__ import annotations

from pathlib import Path

from runtime.shared.watched_file import POLL_INTERVAL_S, WatchedFile


def test_file_is_read_again_only_after_a_change(tmp_path: Path) -> None:
    path, now, reads = tmp_path / "number", 0.0, 0

    def read(text: str) -> int:
        nonlocal reads
        reads += 1
        return int(text)

    watched = WatchedFile(str(path), read, -1, lambda: now)
    assert watched.value() == -1, "it is not there yet"
    path.write_text("7")
    assert watched.value() == -1, "no look is due"
    now += POLL_INTERVAL_S
    assert [watched.value(), watched.value(), reads] == [7, 7, 1]
    now += POLL_INTERVAL_S
    assert (watched.value(), reads) == (7, 1), "it has not changed"
    path.write_text("not a number")
    now += POLL_INTERVAL_S
    assert watched.value() == -1
    path.write_text("12")
    now += POLL_INTERVAL_S
    assert watched.value() == 12
    path.unlink()
    now += POLL_INTERVAL_S
    assert watched.value() == -1


def test_watched_file_without_a_path_has_the_default_value() -> None:
    assert WatchedFile("", int, 3).value() == 3
