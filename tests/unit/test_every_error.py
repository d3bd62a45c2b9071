"""Tests that each error is expected by some test."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from runtime import errors
from runtime.errors import SetUpError, SpeechError
from tests.unit.test_errors import leaves

TESTS = Path(__file__).resolve().parents[1]
ABOUT_ALL = {"test_errors.py", "test_every_error.py"}  # Files that list every error without raising it.


def expected_by(tree: ast.AST) -> set[str]:
    """Return class names in ``pytest.raises``, and strings in assertions and test parameters."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="raises"), args=[first, *_]):
                found |= {node.id for node in ast.walk(first) if isinstance(node, ast.Name)}
            case ast.Assert() | ast.Call(func=ast.Attribute(attr="parametrize") | ast.Name(id="refused")):
                words = [inner for inner in ast.walk(node) if isinstance(inner, ast.Name | ast.Constant)]
                found |= {word.id if isinstance(word, ast.Name) else str(word.value) for word in words}
    return found


@cache
def expected(room: str) -> set[str]:
    files = [path for path in (TESTS / room).rglob("test_*.py") if path.name not in ABOUT_ALL]
    assert files
    return set().union(*(expected_by(ast.parse(path.read_text(encoding="utf-8"))) for path in files))


@pytest.mark.parametrize("leaf", [*leaves(), errors.BadReferenceAudio], ids=lambda leaf: leaf.__name__)
def test_every_error_is_asserted_by_a_test(leaf: type[SpeechError]) -> None:
    assert {leaf.__name__, leaf.code} & expected(".")


@pytest.mark.parametrize(
    "leaf", [leaf for leaf in leaves() if not issubclass(leaf, SetUpError)], ids=lambda leaf: leaf.__name__
)
def test_every_error_code_is_received_by_a_client_test(leaf: type[SpeechError]) -> None:
    room = "unit/studio" if leaf.__module__ == "studio.errors" else "wire"
    assert leaf.code in expected(room)


def test_errors_raised_by_a_test_do_not_count_as_expected() -> None:
    source = 'engine.refusal = Overloaded()\nassert reply == ("draining", 1)\nwith pytest.raises(EmptyText):\n    pass'
    assert {"Overloaded", "overloaded"}.isdisjoint(expected_by(ast.parse(source)))
    assert {"draining", "EmptyText"} <= expected_by(ast.parse(source))
