"""The design room's rules by themselves: seeds, loudness, names, where a voice comes from."""

from __future__ import annotations

import pytest

from runtime.shared.names import LONGEST, checked_name
from tests.js.conftest import Node

MOST = 2**32 - 1


def test_drawn_seeds_differ_from_each_other_and_from_those_there(node: Node) -> None:
    seeds = node.call("design/seeds", "drawn", 500)
    assert len(set(seeds)) == 500
    assert all(isinstance(seed, int) and 0 <= seed <= MOST for seed in seeds)
    assert max(seeds) > MOST // 2  # all 32 bits are in use
    body = """async () => {
      const { drawn } = await import('/js/design/seeds.js');
      const numbers = [7, 7, 8, 9, 9, 10];
      const before = crypto.getRandomValues;
      crypto.getRandomValues = (array) => array.fill(numbers.shift());
      try { return drawn(2, [8]); } finally { crypto.getRandomValues = before; }
    }"""
    assert node.evaluate(body) == [7, 9]


@pytest.mark.parametrize(
    ("typed", "seed"),
    [
        ("42", 42),
        (" 0 ", 0),
        (str(MOST), MOST),
        *((no_seed, None) for no_seed in (str(MOST + 1), "", "-1", "1.5", "1e3", "99999999999")),
    ],
)
def test_a_typed_seed_is_a_whole_number_of_32_bits(node: Node, typed: str, seed: int | None) -> None:
    assert node.call("design/seeds", "parsed", typed) == seed


@pytest.mark.parametrize(
    ("levels", "level", "gains"),
    [
        ([-20, -23, -18], -23, [-3, 0, -5]),
        ([-20, None, -18], -20, [0, 0, -2]),  # what nobody measured stays as it is
        ([-20, None, None], None, [0, 0, 0]),
        ([-20, -70, -18], -20, [0, 0, -2]),  # a take of near silence does not take the others with it
        ([], None, []),
    ],
)
def test_takes_are_turned_down_to_the_quietest(
    node: Node, levels: list[float | None], level: float | None, gains: list[float]
) -> None:
    assert node.call("design/loudness", "matched", levels) == {"level": level, "gains": gains}


@pytest.mark.parametrize(
    ("preset", "description", "others", "name"),
    [
        ("Narrator", "A woman in her fifties", [], "Narrator"),
        ("Narrator", "", ["narrator ", "Narrator 2"], "Narrator 3"),
        ("", "a young man, bright and brisk", [], "A young man"),
        ("", "一位六十岁左右的男性说书人，嗓音沙哑", [], "一位六十岁左右的男性说书人"),
        ("", "An extraordinarily melodramatic storyteller with a lisp", [], "An extraordinarily"),
        ("", "", [], "Voice"),
        ("", " ... ", ["Voice"], "Voice 2"),
    ],
)
def test_a_proposed_name_is_short_and_free(
    node: Node, preset: str, description: str, others: list[str], name: str
) -> None:
    assert node.call("design/names", "proposed", preset, description, others) == name
    assert checked_name(name) == name


def test_a_long_name_stays_within_the_library_s_limit(node: Node) -> None:
    long = "n" * LONGEST
    name = node.call("design/names", "free", long, [long])
    assert name.endswith(" 2")
    assert checked_name(name) == name


def test_a_reference_under_three_seconds_is_short(node: Node) -> None:
    assert node.call("design/lineage", "isShort", {"seconds": 2.99}) is True
    assert node.call("design/lineage", "isShort", {"seconds": 3}) is False
