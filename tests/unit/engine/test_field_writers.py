"""Tests that each field of the engine's shared records is changed in one module."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import runtime.engine

MODULES = {
    path.name: ast.parse(path.read_text(encoding="utf-8")) for path in Path(runtime.engine.__path__[0]).rglob("*.py")
}


def writers(owner: str, variable: str) -> dict[str, set[str]]:
    """Return the modules that assign each attribute of a record.

    The record is a variable whose name ends with `variable`, and `self` in the module `owner`. An assignment of an item
    of the attribute also counts.
    """
    found = defaultdict(set)
    for module, tree in MODULES.items():
        for node in ast.walk(tree):
            target = node.value if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) else node
            is_stored = isinstance(target, ast.Attribute) and (target is not node or isinstance(target.ctx, ast.Store))
            if is_stored and isinstance(target, ast.Attribute):
                base = ast.unparse(target.value)
                if base.endswith(variable) or (base == "self" and module == owner):
                    found[target.attr].add(module)
    return found


def test_sequence_fields_are_assigned_in_one_module_each() -> None:
    modules = writers("sequence.py", "sequence")
    assert modules["state"] == {"sequence.py"}
    assert {field: names for field, names in modules.items() if len(names) > 1} == {}


def test_columns_of_the_sequence_table_are_changed_only_by_its_methods() -> None:
    modules = writers("scheduler.py", "table")
    assert set(modules) >= {"launched", "sampled", "emitted", "buffer_empty_at"}
    assert {column: names for column, names in modules.items() if names != {"scheduler.py"}} == {}
