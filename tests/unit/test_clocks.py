"""Test that durations are measured with monotonic clocks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATES = {"time", "time_ns", "now", "utcnow", "today"}

# Files that may read the wall clock, because they store dates or compare dates with stored dates.
DATED = {
    "runtime/server/voices/forms.py",  # Dates of a voice and of its consent.
    # Tickets that several replicas accept. The wall clock is the only clock that the replicas share.
    "runtime/server/http/keys.py",
    "runtime/cluster/command.py",  # Number that identifies a replacement of all replicas.
    "runtime/pronunciations/folder.py",  # Dates of the creation and the last change of a dictionary.
    "runtime/server/caller.py",  # Calendar day of an allowance.
    "runtime/voices/library.py",  # Ages of files, which the file system dates.
    "studio/store_service.py",  # Detection of clock jumps.
    "studio/store/database.py",  # New names of damaged databases.
    "studio/store/owned_rows.py",  # Dates of rows that are written or replaced.
    "studio/store/runtime_owners.py",  # Last visit of each owner.
    "studio/store/scripts.py",
    "studio/store/shares.py",
    "studio/store/store.py",
    "studio/store/takes.py",
    # Days since a voice was deleted, including the time in which the studio is stopped.
    "studio/store/voice_bin.py",
}


def test_wall_clock_is_used_only_for_dates() -> None:
    asking = {
        str(path.relative_to(ROOT))
        for folder in ("runtime", "studio", "clients/python")
        for path in (ROOT / folder).rglob("*.py")
        if any(_asks_for_the_date(path))
    }
    assert asking == DATED


def _asks_for_the_date(path: Path) -> Iterator[bool]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(ast.Name("time" | "datetime" | "date"), name):
                yield name in DATES
            case ast.ImportFrom(module="time", names=names):
                yield any(alias.name in DATES for alias in names)
