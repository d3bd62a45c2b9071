"""One tree of errors, one table of what each means outside, and no raise that the two do not know."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import errors
from runtime.errors import TABLE, SetUpError, SpeechError

ROOT = Path(__file__).resolve().parents[2]

# Close codes that a server may send: RFC 6455 and the ones registered since.
CLOSE_CODES = {1002, 1007, 1008, 1009, 1011, 1013}


def tree(root: type[SpeechError]) -> dict[str, str]:
    """Name -> parent's name, of every class below."""
    pairs: dict[str, str] = {}
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            pairs[child.__name__] = root.__name__
            pairs |= tree(child)
    return pairs


def leaves() -> list[type[SpeechError]]:
    parents = set(tree(SpeechError).values())
    return [getattr(errors, name) for name in tree(SpeechError) if name not in parents]


def drawn_tree() -> dict[str, str]:
    """The tree as the module's docstring draws it."""
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
        depth = (branch.start() - 4) // 3 + 1  # the drawing is indented by four, a level is three columns
        first, *others = names
        pairs[first] = parent_at[depth - 1]
        parent_at[depth] = first
        below = ":" in line
        for other in others:
            pairs[other] = first if below else parent_at[depth - 1]
    return pairs


def test_the_drawn_tree_is_the_tree() -> None:
    # These two are drawn beside BadReferenceAudio, their parent, which is raised itself too.
    beside = dict.fromkeys(("ReferenceTooShort", "ReferenceTooLong"), "BadRequest")
    assert drawn_tree() == tree(SpeechError) | beside


def test_every_leaf_has_a_row_of_its_own_and_every_row_a_leaf() -> None:
    codes = [leaf.code for leaf in leaves()] + ["invalid_ref_audio"]  # raised itself, and parent of two
    assert sorted(codes) == sorted(TABLE)


def test_every_class_has_a_row() -> None:
    assert all(getattr(errors, name).code in TABLE for name in tree(SpeechError))


@pytest.mark.parametrize("code", TABLE)
def test_a_row_makes_sense_outside(code: str) -> None:
    outcome = TABLE[code]
    assert re.fullmatch(r"[a-z][a-z_]+", code)
    assert 400 <= outcome.http < 600
    assert outcome.close in CLOSE_CODES
    assert outcome.retryable == (outcome.http in {408, 429, 503} or code in {"non_finite_output", "generation_failed"})
    assert outcome.sentence[0].isupper() or outcome.sentence.startswith("{")
    assert "\n" not in outcome.sentence


@pytest.mark.parametrize("leaf", leaves(), ids=lambda leaf: leaf.__name__)
def test_a_sentence_needs_its_facts(leaf: type[SpeechError]) -> None:
    facts = {name for _, name, _, _ in string.Formatter().parse(TABLE[leaf.code].sentence) if name}
    error = leaf(param="somewhere", **dict.fromkeys(facts, 7))
    assert error.param == "somewhere"
    assert error.outcome is TABLE[leaf.code]
    assert "{" not in str(error)
    if facts:
        with pytest.raises(KeyError):
            leaf()


def raises() -> Iterator[tuple[str, str, set[str]]]:
    """Every place in our code that makes one of our errors: where, which, with which facts."""
    names = {"SpeechError", *tree(SpeechError)}
    for room in ("runtime", "studio"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    assert not node.args, f"{place}: facts go by name"
                    if any(word.arg is None for word in node.keywords):
                        continue
                    yield place, node.func.id, {word.arg for word in node.keywords if word.arg}


@pytest.mark.parametrize(
    ("place", "name", "given"), list(raises()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_raise_gives_exactly_the_facts_of_its_sentence(place: str, name: str, given: set[str]) -> None:
    sentence = TABLE[getattr(errors, name).code].sentence
    facts = {field for _, field, _, _ in string.Formatter().parse(sentence) if field}
    assert given - {"param"} == facts, place


def test_groups_are_never_raised_themselves() -> None:
    groups = {"SpeechError", "BadRequest", "Busy", "Expired", "Failed", "SetUpError"}
    assert not [place for place, name, _ in raises() if name in groups]


@pytest.mark.parametrize("leaf", leaves(), ids=lambda leaf: leaf.__name__)
def test_only_set_up_errors_may_name_a_path(leaf: type[SpeechError]) -> None:
    if not issubclass(leaf, SetUpError):
        assert "{path}" not in TABLE[leaf.code].sentence
