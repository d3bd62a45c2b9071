"""Tests for voice pickers: coloured marks, search and available voices."""

from __future__ import annotations

import math
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.js.conftest import Node

HUES = 8
DEMO = ("angus", "clara", "owen", "iris", "reed", "nora", "mia", "bruno")
PUBLISHED = ("serena", "vivian", "uncle_fu", "ryan", "aiden", "ono_anna", "sohee", "eric", "dylan")


def test_speaker_colours_and_bars_are_stable_and_distinct(node: Node) -> None:
    hues = {name: node.call("speak/voices", "hueOf", name) for name in (*DEMO, *PUBLISHED)}
    assert sorted(hues[name] for name in DEMO) == list(range(HUES))
    published = [hues[name] for name in PUBLISHED]
    assert max(published.count(hue) for hue in range(HUES)) == 2
    assert node.call("speak/voices", "hueOf", "Uncle_Fu") == hues["uncle_fu"]
    bars = [node.call("speak/voices", "barsOf", name) for name in (*DEMO, *PUBLISHED)]
    assert all(len(heights) == 5 and all(5 <= height <= 20 for height in heights) for heights in bars)
    assert len({tuple(heights) for heights in bars}) == len(bars)


def test_voice_colours_have_contrast_and_are_distinct_in_both_themes() -> None:
    tokens = Path("assets/css/tokens.css").read_text()
    for theme in tokens.split(".dark {"):
        inks = dict(re.findall(r"--vw-h(\d): (#\w{6});", theme))
        grounds = dict(re.findall(r"--vw-b(\d): (#\w{6});", theme))
        assert len(inks) == len(grounds) == HUES
        for hue, ink in inks.items():
            low, high = sorted((luminance(ink), luminance(grounds[hue])))
            assert (high + 0.05) / (low + 0.05) >= 4.5, ink
        for one, other in combinations(inks.values(), 2):
            assert math.dist(rgb(one), rgb(other)) > 0.15, (one, other)


def rgb(colour: str) -> list[float]:
    return [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2)."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb(colour)]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", True),
        ("  ", True),
        ("CLARA", True),
        ("clara american", True),
        ("matter-of", True),
        ("clara scottish", False),
    ],
)
def test_voice_search_matches_all_words_in_name_tags_and_description(node: Node, query: str, found: bool) -> None:
    clara = {"name": "Clara", "tags": ["English", "American"], "about": "A woman, even and matter-of-fact"}
    assert node.call("speak/voices", "fits", clara, query) is found


CATALOGUE = """async ({ modes, recalled, remembered }) => {
  const { VoiceCatalogue } = await import('/js/speak/voices.js');
  const voices = Object.assign(new EventTarget(), { list: [
    { id: 'v1', name: 'Marta', seconds: 8.2, tags: ['warm'], provenance: { source: 'design' } },
    { id: 'v2', name: 'angus', seconds: 12, tags: [], provenance: {}, yours: false, description: 'From the kitchen' },
  ] });
  const card = { id: 'small', speakers: ['stranger', 'angus', 'tuned'], adapters: { wilma: ['tuned'] }, languages: [] };
  const cards = new Map(modes.map((mode) => [mode, card]));
  const angus = { name: 'Angus', language: null, character: 'A man', sample: 'I am Angus.' };
  const presets = { texts: { auto: 'Hello.' }, speakers: [angus] };
  const t = (key, { model = '' } = {}) => `${key} ${model}`.trim();
  const catalogue = new VoiceCatalogue({ cards, voices, presets, t });
  catalogue.recall(recalled);
  catalogue.update();
  for (const key of remembered) catalogue.remember({ key });
  const lately = catalogue.recentVoices.map(({ key }) => key);
  return { all: catalogue.all, first: catalogue.first?.key ?? null, lately, draft: catalogue.draft(),
    named: ['v1', 'ANGUS', 'marta', 'nobody'].map((said) => catalogue.findByName(said)?.key ?? null) };
}"""


def listed(node: Node, modes: list[str], remembered: list[str], **recalled: Any) -> dict[str, Any]:
    return dict(node.evaluate(CATALOGUE, {"modes": modes, "recalled": recalled, "remembered": remembered}))


def test_available_voices_are_listed_once_for_every_room(node: Node) -> None:
    found = listed(node, ["custom_voice", "base"], [])
    said = [(one["key"], one["name"], one["kind"], one["about"]) for one in found["all"]]
    assert said == [
        ("custom_voice:angus", "Angus", "preset", "A man"),
        ("custom_voice:stranger", "Stranger", "preset", "picker.plain small"),
        ("custom_voice:tuned", "Tuned", "preset", "picker.tuned wilma"),
        ("base:v1", "Marta", "designed", "picker.designed"),
        ("base:v2", "angus", "recorded", "From the kitchen"),
    ]
    assert [one["isCommon"] for one in found["all"]] == [False, False, False, False, True]
    assert not any(one["why"] for one in found["all"])
    assert found["named"] == ["base:v1", "custom_voice:angus", "base:v1", None]
    assert found["first"] == "custom_voice:angus"


def test_loaded_modes_determine_the_available_voices(node: Node) -> None:
    assert listed(node, ["base"], [])["first"] == "base:v1"
    without_base = listed(node, ["voice_design"], [])
    assert [one["why"] for one in without_base["all"]] == ["picker.no_base", "picker.no_base"]
    assert without_base["first"] is None


def test_recent_voices_are_listed_first_without_deleted_voices(node: Node) -> None:
    before = ["base:gone", "base:v2"]
    found = listed(node, ["custom_voice", "base"], ["custom_voice:angus", "base:v2"], recent=before, kind="mine")
    assert found["lately"] == ["base:v2", "custom_voice:angus"]
    assert found["draft"] == {"recent": ["base:v2", "custom_voice:angus", "base:gone"], "kind": "mine"}
    assert listed(node, [], [], recent="nonsense", kind="nobody's")["draft"] == {"recent": [], "kind": "all"}


LISTED = """async () => {
  const before = [globalThis.document, globalThis.fetch];
  const waiting = [];
  globalThis.document = { baseURI: 'http://studio/' };
  globalThis.fetch = () => new Promise((answer) => {
    waiting.push((names) => answer(new Response(JSON.stringify({ data: names.map((name) => ({ id: name, name })) }))));
  });
  try {
    const { Voices } = await import('/js/speak/voices.js');
    const voices = new Voices();
    const seen = [];
    voices.addEventListener('change', () => seen.push(voices.list.map(({ name }) => name)));
    const asked = [voices.refresh(), voices.refresh()];
    waiting[1](['Marta', 'Zoë']);
    await asked[1];
    waiting[0](['Marta']);
    await asked[0];
    return seen;
  } finally {
    [globalThis.document, globalThis.fetch] = before;
  }
}"""


def test_voice_list_older_than_the_last_change_is_not_shown(node: Node) -> None:
    assert node.evaluate(LISTED) == [["Marta", "Zoë"]]


PACES = """async ({ takes, asked }) => {
  const { VoicePaces } = await import('/js/speak/sounding_text.js');
  const paces = new VoicePaces();
  for (const take of takes) paces.learn(take);
  return paces.samplesOf(asked) / 24000;
}"""
SENTENCE = "The boat came back in the evening, and nobody asked where it had been."
ENGLISH: dict[str, Any] = {"mode": "base", "config": {"voice": "v1"}, "sent": SENTENCE}
CHINESE = {**ENGLISH, "sent": "那条船傍晚回来了，没有人问它去过哪里。"}
PAUSED = {**ENGLISH, "sent": f"{SENTENCE} [pause 2s]", "config": {"voice": "v1", "tags": True}}
ORDINARY_S = 0.85 * 0.08 * len(SENTENCE)


@pytest.mark.parametrize(
    ("take", "seconds"),
    [
        ({**ENGLISH, "seconds": 1.4 * ORDINARY_S}, 1.4 * ORDINARY_S),
        ({**ENGLISH, "seconds": 2.4 * ORDINARY_S}, ORDINARY_S),
        ({**ENGLISH, "config": {"voice": "v2"}, "seconds": 1.4 * ORDINARY_S}, ORDINARY_S),
        ({**CHINESE, "seconds": 8}, ORDINARY_S),
        ({**ENGLISH, "sent": "Good morning, all!", "seconds": 2}, ORDINARY_S),
        ({**PAUSED, "seconds": 1.8 * ORDINARY_S}, ORDINARY_S),
    ],
    ids=["the same voice", "no pace", "another voice", "another script", "short", "with a pause"],
)
def test_speaking_pace_of_a_voice_is_learned_from_its_takes(node: Node, take: dict[str, Any], seconds: float) -> None:
    assert node.evaluate(PACES, {"takes": [take], "asked": ENGLISH}) == pytest.approx(seconds, rel=0.01)
