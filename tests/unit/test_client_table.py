"""Tests for the table of clients in docs/api.md."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "api.md").read_text("utf-8")
LINES = [line.strip("|") for line in PAGE.splitlines() if re.match(r"\| [^|]+ \| .*●", line)]
ROWS = [[cell.strip() for cell in line.split("|")] for line in LINES]
MARKS = {"●", "◐", "○"}
NO_PACKAGE = "–"


def locked() -> set[tuple[str, str]]:
    """Return (package, version) of every package in the lock files, and of our own packages."""
    lines = "".join((ROOT / name).read_text("utf-8") for name in ("requirements.lock", "requirements-clients.lock"))
    python = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text("utf-8"))["project"]
    javascript = json.loads((ROOT / "clients/js/package.json").read_text("utf-8"))
    packages = json.loads((ROOT / "tests/clients/package-lock.json").read_text("utf-8"))["packages"]
    theirs = {(path.rpartition("node_modules/")[2], package["version"]) for path, package in packages.items() if path}
    ours = theirs | {(project["name"], project["version"]) for project in (python, javascript)}
    return ours | set(re.findall(r"^([\w.-]+)==([\w.]+)", lines, re.MULTILINE))


def test_docs_page_contains_the_client_table() -> None:
    (head,) = re.findall(r"^\| client \| version tried \|.*$", PAGE, re.MULTILINE)
    assert len(ROWS) > 10
    assert {len(row) for row in ROWS} == {len(head.strip("|").split("|"))}
    assert len({row[0] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_client_table_row_contains_its_test_files(row: list[str]) -> None:
    _, version, *marks, tested = row
    assert set(marks) <= MARKS
    assert version == NO_PACKAGE or tuple(version.split()) in locked()
    files = re.findall("`([^`]+)`", tested)
    assert files
    assert [path for path in files if not (ROOT / "tests" / path).exists()] == []
