"""What lasts is measured by the clock that never jumps; what is written down has the date of the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATES = {"time", "time_ns", "now", "utcnow", "today"}

# Who may ask for the date: it is written into what is kept, or compared with dates that were.
DATED = {
    "runtime/server/voices/forms.py",  # a voice's date and its consent's
    "runtime/server/http/keys.py",  # tickets that several replicas take, whose clocks have nothing else in common
    "runtime/cluster/command.py",  # numbers a replacement of all replicas
    "runtime/pronunciations/folder.py",  # when a dictionary was made and changed
    "runtime/server/caller.py",  # An allowance is for one calendar day.
    "runtime/voices/library.py",  # ages of files, which the file system dates
    "studio/store_service.py",  # Detects jumps of the clock.
    "studio/store/database.py",  # names of what is set aside
    "studio/store/owned_rows.py",  # when a row was written or set aside
    "studio/store/runtime_owners.py",  # The last visit of each owner.
    "studio/store/scripts.py",
    "studio/store/shares.py",
    "studio/store/store.py",
    "studio/store/takes.py",
    "studio/store/voice_bin.py",  # days since a voice was deleted, over restarts
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
