"""Tests for the error classes: codes, statuses and messages."""

from __future__ import annotations

import ast
import json
import pickle
import re
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from runtime import errors
from runtime.errors import MessageTooLarge, MoreThan, SetUpError, SpeechError
from tests.support.errors import BY_CODE, BY_NAME, tree

ROOT = Path(__file__).resolve().parents[2]

# WebSocket close codes that a server may send, from RFC 6455 and later registrations.
CLOSE_CODES = {1002, 1007, 1008, 1009, 1011, 1013}


def leaves() -> list[type[SpeechError]]:
    return [kind for kind in tree() if kind not in set(tree().values())]


def drawn_tree() -> dict[str, str]:
    """Return the parent of each error class, from the tree in the module's docstring."""
    parent_at: dict[int, str] = {}
    pairs: dict[str, str] = {}
    assert errors.__doc__ is not None
    for line in errors.__doc__.splitlines():
        names = re.findall(r"\b[A-Z][A-Za-z]+\b", line)
        if "SpeechError" in names and not pairs:
            parent_at[0] = "SpeechError"
        branch = re.search(r"[├└]─", line)
        if branch is None:
            continue
        depth = (branch.start() - 4) // 3 + 1  # The tree is indented by four columns, and each level by three more.
        first, *others = names
        pairs[first] = parent_at[depth - 1]
        parent_at[depth] = first
        below = ":" in line
        for other in others:
            pairs[other] = first if below else parent_at[depth - 1]
    return pairs


def test_documented_error_tree_equals_the_classes() -> None:
    # The tree lists these two errors next to BadReferenceAudio, which is their parent and is also raised itself.
    beside = dict.fromkeys(("ReferenceTooShort", "ReferenceTooLong"), "BadRequest")
    real = {kind.__name__: parent.__name__ for kind, parent in tree().items() if kind.__module__ == errors.__name__}
    assert drawn_tree() == real | beside


def test_every_leaf_error_has_a_unique_code() -> None:
    # The error with the code invalid_ref_audio is raised itself, and it is the parent of two other errors.
    codes = [leaf.code for leaf in leaves()] + ["invalid_ref_audio"]
    assert sorted(codes) == sorted(BY_CODE)


def test_leaf_error_defines_its_code_and_message() -> None:
    assert all({"code", "sentence"} <= vars(leaf).keys() for leaf in leaves())


@pytest.mark.parametrize("code", BY_CODE)
def test_every_code_has_a_valid_http_status_and_close_code(code: str) -> None:
    kind = BY_CODE[code]
    assert re.fullmatch(r"[a-z][a-z_]+", code)
    assert 400 <= kind.http_status < 600
    assert kind.close_code in CLOSE_CODES
    assert kind.retryable == (kind.http_status in {408, 429, 503} or code in {"non_finite_output", "generation_failed"})
    assert kind.sentence[0].isupper() or kind.sentence.startswith("{")
    assert "\n" not in kind.sentence


def facts_of(kind: type[SpeechError]) -> set[str]:
    """Return the names of the placeholders in the message of an error class."""
    return {name for _, name, _, _ in string.Formatter().parse(kind.sentence) if name}


@pytest.mark.parametrize("leaf", leaves(), ids=lambda leaf: leaf.__name__)
def test_error_message_requires_all_its_values(leaf: type[SpeechError]) -> None:
    facts = facts_of(leaf)
    error = leaf(param="somewhere", **dict.fromkeys(facts, 7))
    assert error.param == "somewhere"
    assert "{" not in str(error)
    if facts:
        with pytest.raises(KeyError):
            leaf()


@pytest.mark.parametrize("leaf", [*leaves(), errors.BadReferenceAudio], ids=lambda leaf: leaf.__name__)
def test_error_sent_to_another_process_is_received_unchanged(leaf: type[SpeechError]) -> None:
    error = leaf(param="text", **dict.fromkeys(facts_of(leaf), 7))
    error.param = "input"  # The APIs replace the field by the name that their client uses.
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is leaf
    assert (copy.param, copy.facts, str(copy)) == ("input", error.facts, str(error))
    assert copy.public_facts == error.public_facts
    assert (copy.code, copy.sentence) == (leaf.code, leaf.sentence)


def test_error_states_a_lower_bound_if_the_size_is_unknown() -> None:
    error = MessageTooLarge(what="The body", size=MoreThan(5), limit=5)
    assert str(error) == "The body has more than 5 bytes; the limit is 5. Send less at a time."
    assert json.loads(json.dumps(error.public_facts))["size"] == 5
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@cache
def raises() -> list[tuple[str, str, set[str]]]:
    """Return the location, class and keyword arguments of every raise of an error in the code."""
    return list(_raises())


def _raises() -> Iterator[tuple[str, str, set[str]]]:
    names = {"SpeechError", *BY_NAME}
    for room in ("runtime", "studio"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    assert not node.args, f"{place}: facts go by name"
                    if any(word.arg is None for word in node.keywords):
                        continue
                    yield place, node.func.id, {word.arg for word in node.keywords if word.arg}


def test_every_raise_has_exactly_the_values_of_its_message() -> None:
    made = raises()
    wrong = [(place, name) for place, name, kwargs in made if kwargs - {"param"} != facts_of(BY_NAME[name])]
    assert len(made) > 200
    assert not wrong


def test_abstract_errors_are_never_raised() -> None:
    groups = {"SpeechError", "BadRequest", "Busy", "Expired", "Failed", "SetUpError"}
    assert not [place for place, name, _ in raises() if name in groups]


def test_only_errors_for_the_operator_may_contain_a_path() -> None:
    assert not [leaf for leaf in leaves() if "{path}" in leaf.sentence and not issubclass(leaf, SetUpError)]
