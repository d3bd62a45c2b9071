"""Tests of the style of docstrings, comments and constants.

The number of violations may only decrease.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OTHERS = {"site", "debs", "work", "node_modules", "build"}  # Folders that are not in the repository.
FOLDERS = ("runtime", "studio", "clients/python", "benchmarks", "tools", "tests/support")
OPENING = re.compile(r"(What|Whether|How|Where|Who|When|That|Which|Whose|Why)\b")
WORDS = re.compile(r"\b(anew|meanwhile|but for|in the place of|goes on|go on|lets go)\b", re.IGNORECASE)
DIRECTIVE = re.compile(r"#\s*(noqa|type:|pragma|fmt:|nosec|ruff|pylint)")
FRAGMENT = re.compile(r"#\s*[a-z]")
CONSTANT = re.compile(r"_?(MOST|LEAST)(_[A-Z]+)*")


def docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def comments(source: str) -> Iterator[str]:
    """Yield the comments, and the first one of several lines below each other."""
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not DIRECTIVE.match(token.string):
            is_trailing = bool(token.line[: token.start[1]].strip())
            if is_trailing or token.start[0] != last + 1:
                yield token.string
            last = -1 if is_trailing else token.start[0]


def openings(source: str) -> int:
    return sum(bool(OPENING.match(text)) for text in docstrings(source))


def fragments(source: str) -> int:
    return sum(bool(FRAGMENT.match(text)) for text in comments(source))


def words(source: str) -> int:
    return sum(len(WORDS.findall(text)) for text in (*docstrings(source), *comments(source)))


def constants(source: str) -> int:
    names = (node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))
    return len({name for name in names if CONSTANT.fullmatch(name)})


# Number of violations of each rule. Lower it after a correction and never raise it.
ALLOWED: dict[Callable[[str], int], int] = {openings: 0, fragments: 0, words: 0, constants: 0}
PLANTED = {
    openings: 'def f():\n    """Whether the row is done."""\n',
    fragments: "LINE_BYTES = 2**25  # of an answer\n",
    words: "x = 1  # It is measured anew.\n",
    constants: "MOST_ROWS = 8\n",
}


@pytest.mark.parametrize("rule", ALLOWED)
def test_style_violations_do_not_increase(rule: Callable[[str], int]) -> None:
    paths = [path.relative_to(ROOT) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    found = {str(path): rule((ROOT / path).read_text("utf-8")) for path in paths if not OTHERS & set(path.parts)}
    assert len(found) > 500
    most = sorted(found.items(), key=lambda item: -item[1])[:5]
    assert sum(found.values()) <= ALLOWED[rule], f"{rule.__name__} increased; most are in {most}"
    assert sum(found.values()) == ALLOWED[rule], f"{rule.__name__} decreased: lower its number to {sum(found.values())}"


@pytest.mark.parametrize("rule", PLANTED)
def test_each_rule_finds_a_planted_example(rule: Callable[[str], int]) -> None:
    assert rule(PLANTED[rule]) == 1
    assert rule('def f():\n    """Return the number of slots."""\n\n\nMAX_ROWS = 8  # Rows of a product.\n') == 0
