"""Reads docs/reliability.md: promises, the tests that hold them, where those run, and figures."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.thorough import KEPT, ROOT, is_thorough

NUMBERED = re.compile(r"\| [A-Z]\d+ \|")
PAGE = ROOT / "docs" / "reliability.md"


@dataclass(frozen=True, slots=True)
class Promise:
    """A row of the table. ``tests`` are node ids below tests/, ``runs_in`` is of each `test` or `test-all`."""

    number: str
    promise: str
    tests: tuple[str, ...]
    runs_in: tuple[str, ...]
    figure: str


def promises(page: str) -> list[Promise]:
    """Every row of every table of the page."""
    rows = [line.strip().strip("|").split(" | ") for line in page.splitlines() if NUMBERED.match(line)]
    return [
        Promise(number.strip(), promise, tuple(tests.split("<br>")), tuple(runs_in.split(", ")), figure.strip())
        for number, promise, tests, runs_in, figure in rows
    ]


def where(test: str) -> str:
    """In which command a test of a path and a function, or a file of tests, runs; empty where there is no such."""
    path, _, name = test.partition("::")
    file = ROOT / "tests" / path
    if not file.exists() or (name and name not in _marks(file)):
        return ""
    nodeid = f"tests/{test}"
    some_are_kept = any(each.partition("[")[0] == name for each in KEPT.get(f"tests/{path}", ()) if name)
    is_slow = is_thorough(nodeid) and not some_are_kept
    return "test-all" if is_slow or (name and "thorough" in _marks(file)[name]) else "test"


@cache
def _marks(file: Path) -> dict[str, set[str]]:
    """Tests of a file by name, with the marks at each."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return {function.name: set(_named(function)) for function in functions}


def _named(function: ast.FunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        text = ast.unparse(decorator)
        if text.startswith("pytest.mark."):
            yield text.removeprefix("pytest.mark.").partition("(")[0]
