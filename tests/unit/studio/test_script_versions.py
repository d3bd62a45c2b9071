"""A script is written over only by who has seen what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import ScriptChanged
from studio.settings import StoreSettings
from studio.store.database import Database
from studio.store.records import ScriptFields, read
from studio.store.scripts import Scripts, takes_in_scripts


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database.open(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def scripts(database: Database) -> Scripts:
    return Scripts(database, StoreSettings())


def fields(name: str, **more: Any) -> ScriptFields:
    return read(ScriptFields, {"name": name, "lines": [], **more})


def test_who_has_seen_the_last_version_writes_the_next(scripts: Scripts) -> None:
    first = scripts.put("me", "a", fields("One"))
    second = scripts.put("me", "a", fields("Two", updated_at=first["updated_at"]))
    assert second["updated_at"] > first["updated_at"]
    assert scripts.find("me", "a") == second


def test_who_has_not_is_told_and_overwrites_nothing(scripts: Scripts) -> None:
    first = scripts.put("me", "a", fields("One"))
    second = scripts.put("me", "a", fields("Two", updated_at=first["updated_at"]))
    with pytest.raises(ScriptChanged) as refusal:
        scripts.put("me", "a", fields("Three", updated_at=first["updated_at"]))
    assert refusal.value.code == "script_changed"
    assert refusal.value.outcome.http == 409
    assert scripts.find("me", "a") == second
    assert scripts.put("you", "a", fields("Mine", updated_at=first["updated_at"]))["name"] == "Mine", "another's id"


def test_what_a_line_is_made_of_comes_back_and_keeps_its_takes(scripts: Scripts, database: Database) -> None:
    line = {"id": "1", "text": "Hi.", "locked": True, "takes": [{"key": "k", "take": "t1", "samples": 9}]}
    scripts.put("me", "a", fields("One", lines=[line], gap_s=0.3))
    kept = scripts.find("me", "a")
    assert kept["lines"] == [line]
    assert kept["gap_s"] == 0.3
    assert takes_in_scripts(database, "me") == {"t1"}
