"""Tests for the fuzzing targets with seeds, truncated seeds and inputs of past crashes."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.__main__ import shares
from tests.fuzz.mutation import LINE, Mutation, mutator
from tests.fuzz.targets import TARGETS
from tests.support.documents import letter

LETTER = letter(("Normal", "Words."))
# Position of the field in the end record of the ZIP file that contains the offset of the central directory.
DIRECTORY = LETTER.rindex(b"PK\5\6") + 16
PART = LETTER.index(b"word/styles.xml") + 60  # Position in the middle of the compressed data.

FOUND = {  # Inputs that crashed a target in the past, keyed by target.
    "document": (
        LETTER[:DIRECTORY] + (2**24).to_bytes(4, "little") + LETTER[DIRECTORY + 4 :],
        LETTER[:PART] + b"\xff" * 60 + LETTER[PART + 60 :],
    )
}


@pytest.mark.parametrize("name", list(TARGETS))
def test_seed_inputs_and_truncated_seed_inputs_are_accepted_or_refused(name: str) -> None:
    target, dice = TARGETS[name], random.Random(1)
    for seed in target.seeds:
        target.run(seed)
        for _ in range(3):
            start = dice.randrange(len(seed))
            target.run(seed[:start])
            target.run(seed[:start] + bytes([dice.randrange(256)]) + seed[start + 1 :])
    for found in FOUND.get(name, ()):
        target.run(found)


def of_messages(name: str) -> Mutation:
    mutation = TARGETS[name].mutation
    assert mutation is not None
    return mutation


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.mutation])
@given(seeds=st.lists(st.integers(0, 2**32), min_size=1, max_size=12))
def test_mutated_messages_are_accepted_or_refused(name: str, seeds: list[int]) -> None:
    """Mutations are applied on top of each other, as in a fuzzer."""
    target, mutation = TARGETS[name], of_messages(name)
    data = target.seeds[seeds[0] % len(target.seeds)]
    for seed in seeds:
        data = mutation(data, 4096, seed) or data
        target.run(data)


def test_every_mutation_kind_occurs_and_is_reproducible_by_seed() -> None:
    mutation, (*_, data) = of_messages("native"), TARGETS["native"].seeds
    whole = data.split(LINE)
    made, again = ([mutation(data, 4096, seed) or b"" for seed in range(400)] for _ in range(2))
    assert made == again
    lines = [changed.split(LINE) for changed in made if changed]
    assert any(len(each) < len(whole) for each in lines)
    assert any(len(each) > len(whole) for each in lines)
    assert any(each != whole and sorted(each) == sorted(whole) for each in lines)
    assert any(len(each) == len(whole) and len(set(each) - set(whole)) == 1 for each in lines)
    assert len(set(made)) > 200
    for line in {line for each in lines for line in each}:
        json.loads(line)


def test_unparsable_messages_and_a_fifth_of_valid_messages_are_mutated_as_bytes() -> None:
    mutation = of_messages("body of omni")
    (data,) = TARGETS["body of omni"].seeds
    mutate = mutator(mutation, lambda changed, most: b"by bytes")
    assert mutate(data, 4096, 5) == b"by bytes"
    assert {mutate(data, 1, seed) for seed in range(20)} == {b"by bytes"}
    by_bytes = sum(mutate(data, 4096, seed) == b"by bytes" for seed in range(1000))
    assert 200 <= by_bytes < 500


@pytest.mark.parametrize("runs", [20_001, 1_000_000])
def test_fuzzing_executions_are_distributed_over_all_targets(runs: int) -> None:
    dealt = shares(runs, list(TARGETS))
    assert sum(dealt.values()) == runs
    assert set(dealt) == set(TARGETS)
    assert dealt["wav"] > dealt["document"]
    assert all(dealt.values())
