"""Tests for modules of the Design room: seeds, loudness, names and origin of a voice."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.shared.names import MAX_NAME_CHARS, checked_name
from tests.js.conftest import Node

MAX_SEED = 2**32 - 1


def test_seeds_of_a_set_are_derived_from_the_first_seed_and_are_not_adjacent(node: Node) -> None:
    seeds = node.call("design/take_requests", "seedsFrom", 7, 500)
    assert seeds[0] == 7
    assert len(set(seeds)) == 500
    assert all(isinstance(seed, int) and 0 <= seed <= MAX_SEED for seed in seeds)
    assert max(seeds) > MAX_SEED // 2  # The seeds use all 32 bits.
    assert min(abs(other - seed) for seed in seeds for other in seeds if other != seed) > 1
    assert node.call("design/take_requests", "seedsFrom", 7, 3) == seeds[:3]
    assert not set(node.call("design/take_requests", "seedsFrom", 8, 500)) & set(seeds)


def test_attribute_is_added_in_the_language_of_the_description_and_strengthened_if_repeated(node: Node) -> None:
    def said(description: str, *wishes: str) -> str:
        for wish in wishes:
            description = node.call("design/take_requests", "changeDescription", description, wish)["description"]
        return description

    assert said("A low voice.", "warmer") == "A low voice. Warmer."
    assert said("A low voice", "lower") == "A low voice. Lower in pitch."
    assert said("A low voice.", "warmer", "warmer") == "A low voice. Warmer. Even warmer."
    assert said("低沉的男声", "slower") == "低沉的男声。语速更慢，停顿更长。"
    assert said("低い声の男性", "warmer") == "低い声の男性. Warmer."


@pytest.mark.parametrize(
    ("levels", "level", "gains"),
    [
        ([-20, -23, -18], -23, [-3, 0, -5]),
        ([-20, None, -18], -20, [0, 0, -2]),  # A take without a measured loudness is unchanged.
        ([-20, None, None], None, [0, 0, 0]),
        ([-20, -70, -18], -20, [0, 0, -2]),  # A nearly silent take does not attenuate the other takes.
        ([], None, []),
    ],
)
def test_takes_are_attenuated_to_the_loudness_of_the_quietest_take(
    node: Node, levels: list[float | None], level: float | None, gains: list[float]
) -> None:
    assert node.call("design/listening", "matchLoudness", levels) == {"level": level, "gains": gains}


@pytest.mark.parametrize(
    ("preset", "description", "name"),
    [
        ("Narrator", "A woman in her fifties", "Narrator"),
        ("", "A low voice.", "A low voice."),
        ("", "A man with a calm, dark voice, who reads slowly", "A man with a calm, dark…"),
        ("", "A man with a calm,\n  bright voice", "A man with a calm, bright…"),
        ("", "A voice that is as low as it gets", "A voice that is as low as it…"),
        ("", "一位六十岁左右的男性说书人" * 3, f"{'一位六十岁左右的男性说书人' * 2}一位…"),
        ("", "", ""),
    ],
)
def test_takes_of_a_described_voice_are_named_by_its_first_words(
    node: Node, preset: str, description: str, name: str
) -> None:
    assert node.call("design/names", "suggestedName", preset, description) == name


LOW = "A man with a low voice, speaking slowly."
BUT_SHORT = "A man with a low voice…"
CAPTION = """async (take) => {
  const { captionOf } = await import('/js/design/names.js');
  return captionOf(take, [{ name: 'Narrator', text: 'A preset.' }]);
}"""


@pytest.mark.parametrize(
    ("label", "instructions", "caption"),
    [
        ("Take 1A", LOW, f"{BUT_SHORT} · Take 1A"),
        ("候选 12C", LOW, f"{BUT_SHORT} · 候选 12C"),
        # A take that was stored before takes were grouped in sets has this label.
        ("Take B", LOW, f"{BUT_SHORT} · Take B"),
        ("Take 1A", "A preset.", "Narrator · Take 1A"),
        ("Take 1A", None, "Take 1A"),
        (f"Take 2B · {LOW}", None, f"{BUT_SHORT} · Take 2B · {LOW}"),  # A cloned voice has no description.
        ("Take 2B · Low · slow", None, "Low · slow · Take 2B"),
        (f"{BUT_SHORT} · Take 1A", LOW, f"{BUT_SHORT} · Take 1A"),
        (f"{BUT_SHORT} · Take 1A · {LOW}", None, f"{BUT_SHORT} · Take 1A · {LOW}"),
        ("Model 1A · Take 1A", "Model 1A", "Model 1A · Take 1A"),
        (None, LOW, ""),
    ],
)
def test_take_stored_without_a_speaker_caption_gets_a_caption(
    node: Node, label: str | None, instructions: str | None, caption: str
) -> None:
    config = {} if instructions is None else {"instructions": instructions}
    assert node.evaluate(CAPTION, {"room": "design", "label": label, "config": config}) == caption


def test_takes_of_other_rooms_are_captioned_by_their_labels(node: Node) -> None:
    recording = {"room": "clone", "label": "Take 1A", "config": {"instructions": LOW}}
    assert node.evaluate(CAPTION, recording) == "Take 1A"


@pytest.mark.parametrize(
    ("preset", "description", "others", "name"),
    [
        ("Narrator", "A woman in her fifties", [], "Narrator"),
        ("Narrator", "", ["narrator ", "Narrator 2"], "Narrator 3"),
        ("", "a young man, bright and brisk", [], "A young man"),
        ("", "A man with a calm, dark voice.", [], "A man"),
        ("", "一位六十岁左右的男性说书人，嗓音沙哑", [], "一位六十岁左右的男性说书人"),
        ("", "A woman in her fifties with a low voice", [], "A woman in her fifties"),
        ("", "An extraordinarily melodramatic storyteller with a lisp", [], "An extraordinarily"),
        ("", "", [], "Voice"),
        ("", " ... ", ["Voice"], "Voice 2"),
    ],
)
def test_proposed_name_is_short_and_unused(
    node: Node, preset: str, description: str, others: list[str], name: str
) -> None:
    assert node.call("design/names", "newVoiceName", preset, description, others) == name
    assert checked_name(name) == name


def test_long_name_is_cut_to_the_library_limit(node: Node) -> None:
    long = "n" * MAX_NAME_CHARS
    name = node.call("design/names", "unusedName", long, [long])
    assert name.endswith(" 2")
    assert checked_name(name) == name


def test_reference_under_three_seconds_is_reported_as_short(node: Node) -> None:
    assert node.call("design/keep_form", "isShort", {"seconds": 2.99}) is True
    assert node.call("design/keep_form", "isShort", {"seconds": 3}) is False


def test_take_of_an_unnamed_script_has_no_caption(node: Node) -> None:
    takes: list[dict[str, Any]] = [{"room": "script", "label": label, "config": {}} for label in (", 4", "River, 4")]
    assert [node.evaluate(CAPTION, take) for take in takes] == ["", "River, 4"]
