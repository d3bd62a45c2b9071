"""What `make fuzz` runs by the million takes its seeds, parts of them and all that it once found."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.__main__ import shares
from tests.fuzz.targets import TARGETS
from tests.support.documents import letter

LETTER = letter(("Normal", "Words."))
DIRECTORY = LETTER.rindex(b"PK\5\6") + 16  # where the end of a ZIP says that its directory begins
PART = LETTER.index(b"word/styles.xml") + 60  # in the middle of what is packed there

FOUND = {  # by target: what ended one badly, and does no more
    "document": (
        LETTER[:DIRECTORY] + (2**24).to_bytes(4, "little") + LETTER[DIRECTORY + 4 :],
        LETTER[:PART] + b"\xff" * 60 + LETTER[PART + 60 :],
    )
}


@pytest.mark.parametrize("name", list(TARGETS))
def test_seeds_and_what_is_left_of_them_are_taken_or_refused(name: str) -> None:
    target, dice = TARGETS[name], random.Random(1)
    for seed in target.seeds:
        target.run(seed)
        for _ in range(3):
            start = dice.randrange(len(seed))
            target.run(seed[:start])
            target.run(seed[:start] + bytes([dice.randrange(256)]) + seed[start + 1 :])
    for found in FOUND.get(name, ()):
        target.run(found)


@pytest.mark.parametrize("runs", [20_001, 1_000_000])
def test_executions_are_dealt_out_to_every_target_and_to_the_last_one(runs: int) -> None:
    dealt = shares(runs, list(TARGETS))
    assert sum(dealt.values()) == runs
    assert set(dealt) == set(TARGETS)
    assert dealt["wav"] > dealt["document"]
    assert all(dealt.values())
