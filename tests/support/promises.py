"""Promises (guarantees in docs/reliability.md), with their tests and measured results."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.support.thorough import ROOT, is_slow_file

PAGE = ROOT / "docs" / "reliability.md"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FIGURES = ROOT / "artifacts" / "proof.json"
_NUMBERED = re.compile(r"^\* \*\*([A-Z]\d+)\*\*: ", re.MULTILINE)


def read_promises() -> list[str]:
    """Return the numbers of all promises (guarantees) in docs/reliability.md, in page order."""
    return _NUMBERED.findall(PAGE.read_text(encoding="utf-8"))


def holding_tests() -> dict[str, list[str]]:
    """Return the tests that check each promise of docs/reliability.md.

    A test is given by its node id relative to tests/.
    """
    return tomllib.loads((ROOT / "tests" / "proof" / "promises.toml").read_text(encoding="utf-8"))


def record_figures(figures: Mapping[str, str], path: Path = FIGURES) -> None:
    """Add measured results of promises (docs/reliability.md) to a JSON file.

    The keys are promise numbers or names of measurements. Other results in the file remain.
    """
    path.parent.mkdir(exist_ok=True)
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(known | dict(figures), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def command_of(test: str) -> str:
    """Return the make target that runs a test or a test file.

    The result is "test", "test-all", or an empty string if the test does not exist.
    """
    path, _, name = test.partition("::")
    file = ROOT / "tests" / path
    if not file.exists() or (name and name not in _marks(file)):
        return ""
    marks = _marks(file).get(name, set())
    is_slow = "slow" in marks if marks & {"slow", "quick"} else is_slow_file(f"tests/{path}", file.read_text("utf-8"))
    return "test-all" if is_slow and "quick" not in marks else "test"


@cache
def _marks(file: Path) -> dict[str, set[str]]:
    """Return the pytest marks of each test in a file, keyed by the name of the test.

    The mark `slow` is omitted if it applies only to some cases of a test.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, FUNCTIONS) and node.name.startswith("test_")]
    return {function.name: set(_named(function)) for function in functions}


def _named(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        text = ast.unparse(decorator)
        if text.startswith("pytest.mark.") and not text.startswith("pytest.mark.slow("):
            yield text.removeprefix("pytest.mark.").partition("(")[0]
