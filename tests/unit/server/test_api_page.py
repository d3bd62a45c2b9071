"""docs/api.md names what the code has: limits, codes, messages, fields."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from runtime.errors import SetUpError
from runtime.server.native.schema import MESSAGES, SessionConfig
from runtime.settings import Limits
from tests.support.errors import BY_CODE

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "api.md").read_text()
OPERATORS = {leaf.code for leaf in SetUpError.__subclasses__()}


def rows(heading: str) -> list[list[str]]:
    """The cells of every table row under a heading."""
    section = PAGE.split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]


def test_every_limit_is_listed_with_its_default() -> None:
    listed = {}
    for names, defaults, *_ in rows("## Limits"):
        listed |= dict(zip(re.findall(r"`(\w+)`", names), defaults.split(", "), strict=False))
    assert {name: float(value) for name, value in listed.items()} == {
        limit.name: float(limit.default) for limit in fields(Limits)
    }


def test_every_code_is_listed_with_its_status() -> None:
    listed = {}
    for cells in rows("## Errors"):
        if len(cells) == 4 and cells[0].startswith("`"):
            for code in re.findall(r"`(\w+)`", cells[0]):
                listed[code] = (int(cells[1]), cells[2] == "yes")
    wanted = {code: (kind.http_status, kind.retryable) for code, kind in BY_CODE.items() if code not in OPERATORS}
    assert listed == wanted


def test_every_message_and_field_is_listed() -> None:
    names = set(re.findall(r"`([\w.]+)`", PAGE))
    fields_ = set(SessionConfig.model_fields) - {"type"}
    assert {*MESSAGES, *fields_} <= names
