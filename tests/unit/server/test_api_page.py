"""Test that docs/api.md lists each error code with its HTTP status."""

from __future__ import annotations

import re
from pathlib import Path

from runtime.errors import SetUpError
from tests.support.errors import BY_CODE

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "api.md").read_text()
OPERATORS = {leaf.code for leaf in SetUpError.__subclasses__()}


def rows(heading: str) -> list[list[str]]:
    """Return the cells of every row of the tables in a section of docs/api.md."""
    section = PAGE.split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]


def test_every_error_code_is_documented_with_its_status() -> None:
    listed = {}
    for cells in rows("## Errors"):
        if len(cells) == 4 and cells[0].startswith("`"):
            for code in re.findall(r"`(\w+)`", cells[0]):
                listed[code] = (int(cells[1]), cells[2] == "yes")
    wanted = {code: (kind.http_status, kind.retryable) for code, kind in BY_CODE.items() if code not in OPERATORS}
    assert listed == wanted
