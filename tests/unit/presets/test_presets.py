"""Tests for the files in presets/."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest

from runtime.settings import Limits
from runtime.shared.text.speech_rate import expected_seconds
from studio.presets import FOLDER, USES, Presets
from studio.words import languages

LANGUAGES = {
    "chinese",
    "english",
    "french",
    "german",
    "italian",
    "japanese",
    "korean",
    "portuguese",
    "russian",
    "spanish",
}


def test_every_language_of_the_published_checkpoints_has_a_sample_text() -> None:
    texts = Presets.load().texts
    assert set(texts) == LANGUAGES | {"auto"}
    assert len(set(texts.values())) == len(texts)
    assert all(20 <= len(text) <= 200 and text == text.strip() for text in texts.values())


def test_suggestions_are_short_and_within_limits() -> None:
    suggestions = Presets.load().instructs
    assert len(suggestions) >= 4
    assert len({suggestion.name["en"] for suggestion in suggestions}) == len(suggestions)
    for suggestion in suggestions:
        assert suggestion.name.keys() == suggestion.text.keys() == languages().keys()
        assert all(1 <= len(name) <= 16 for name in suggestion.name.values())
        assert all(10 <= len(text) <= Limits().max_instruct_chars for text in suggestion.text.values())


def test_every_language_has_a_voice_description_for_every_use() -> None:
    designs = Presets.load().designs
    assert {(design.language, design.use) for design in designs} == {
        (language, use) for language in LANGUAGES for use in USES
    }
    assert len({(design.language, design.name) for design in designs}) == len(designs)
    for design in designs:
        assert 1 <= len(design.name) <= 16
        assert 20 <= len(design.text) <= Limits().max_instruct_chars
        assert design.text == design.text.strip()
        assert design.sample == design.sample.strip()
    assert len({design.sample for design in designs}) == len({design.text for design in designs}) == len(designs)


def test_sample_of_a_described_voice_is_a_usable_reference() -> None:
    """The audio of the sample text is long enough for a stored voice.

    It is short enough for one segment of the smallest checkpoint.
    """
    lengths = {design.name: expected_seconds(design.sample) for design in Presets.load().designs}
    assert min(lengths.values()) >= 7, min(lengths, key=lengths.__getitem__)
    assert max(lengths.values()) <= 15, max(lengths, key=lengths.__getitem__)


SCRIPTS = {"chinese": "CJK", "japanese": "HIRAGANA", "korean": "HANGUL", "russian": "CYRILLIC"}


def test_descriptions_and_samples_use_their_own_language() -> None:
    for design in Presets.load().designs:
        script = SCRIPTS.get(design.language, "LATIN")
        for text in (design.text, design.sample):
            letters = [unicodedata.name(letter) for letter in text if letter.isalpha()]
            share = sum(name.startswith(script) for name in letters) / len(letters)
            assert share > (0.4 if script == "HIRAGANA" else 0.95), (design.name, share)


def test_sample_scripts_are_a_dialogue_a_narration_and_an_announcement() -> None:
    dialogue, narration, announcement = Presets.load().scripts
    paragraphs = [script.text.strip().split("\n\n") for script in Presets.load().scripts]
    assert all(3 <= len(lines) <= 8 and all(len(line) <= 600 for line in lines) for lines in paragraphs)
    speakers = [found[1] for line in paragraphs[0] if (found := re.match(r"([A-Z]+)(?: \([a-z]+\))?: \w", line))]
    assert len(speakers) == len(paragraphs[0])
    assert len(set(speakers)) == 2
    for script in (dialogue, narration, announcement):
        pauses = re.findall(r"\[.*?\]", script.text)
        assert pauses
        assert all(re.fullmatch(r"\[pause \d+(\.\d+)?m?s\]", pause) for pause in pauses)
    assert re.search("[A-Za-z]", announcement.text)
    assert re.search("[\u4e00-\u9fff]", announcement.text)


def test_demo_and_published_speakers_have_descriptions() -> None:
    speakers = {speaker.name.lower(): speaker for speaker in Presets.load().speakers}
    published = {"vivian", "serena", "uncle_fu", "dylan", "eric", "ryan", "aiden", "ono_anna", "sohee"}
    assert speakers.keys() == published | {"angus", "clara", "owen", "iris", "nora", "reed", "mia", "bruno"}
    for name, speaker in speakers.items():
        assert speaker.language in LANGUAGES, name
        assert speaker.character.keys() == languages().keys(), name
        assert speaker.accent is None or speaker.accent.keys() == languages().keys(), name
        assert all(5 <= len(words) <= 80 for words in speaker.character.values()), name
        assert 10 <= len(speaker.sample) <= 80, name


def test_example_texts_exist_in_both_languages() -> None:
    for starter in Presets.load().starters:
        assert starter.text.keys() == {"english", "chinese"}
        assert len({len(texts) for texts in starter.text.values()}) == 1, starter.name
        assert all(text.strip() for texts in starter.text.values() for text in texts)


def test_presets_serialize_to_json_for_the_page() -> None:
    presets = Presets.load().as_json()
    assert json.loads(json.dumps(presets))["designs"][0].keys() == {"use", "language", "name", "text", "sample"}


def test_misspelt_key_is_refused(tmp_path: Path) -> None:
    for file in FOLDER.glob("*.toml"):
        (tmp_path / file.name).write_text(file.read_text("utf-8"), "utf-8")
    (tmp_path / "designs.toml").write_text('[[design]]\nname = "A"\ntxet = "b"\n', "utf-8")
    with pytest.raises(TypeError, match="txet"):
        Presets.load(tmp_path)


def test_presets_folder_contains_no_other_files() -> None:
    known = {"texts", "readings", "designs", "instructs", "speakers", "scripts", "starters"}
    assert {file.name for file in FOLDER.iterdir()} == {f"{name}.toml" for name in known}
