"""The schema of presets/: what the page may rely on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.settings import Limits
from studio.presets import FOLDER, Presets

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


def test_every_language_of_the_published_checkpoints_has_a_text() -> None:
    texts = Presets.load().texts
    assert set(texts) == LANGUAGES | {"auto"}
    assert len(set(texts.values())) == len(texts)
    assert all(20 <= len(text) <= 200 and text == text.strip() for text in texts.values())


def test_suggestions_have_short_names_and_texts_within_the_limits() -> None:
    presets = Presets.load()
    for suggestions in (presets.designs, presets.instructs):
        assert len(suggestions) >= 4
        assert len({suggestion.name for suggestion in suggestions}) == len(suggestions)
        for suggestion in suggestions:
            assert 1 <= len(suggestion.name) <= 16
            assert 10 <= len(suggestion.text) <= Limits().max_instruct_chars


def test_speakers_of_the_demo_and_of_the_published_checkpoints_are_known() -> None:
    speakers = {speaker.name.lower(): speaker for speaker in Presets.load().speakers}
    published = {"vivian", "serena", "uncle_fu", "dylan", "eric", "ryan", "aiden", "ono_anna", "sohee"}
    assert speakers.keys() == published | {"angus", "clara", "nora", "reed", "mia", "bruno"}
    for name, speaker in speakers.items():
        assert speaker.language in LANGUAGES, name
        assert speaker.character.keys() >= {"en", "zh"}, name
        assert all(5 <= len(words) <= 80 for words in speaker.character.values()), name
        assert 10 <= len(speaker.sample) <= 80, name


def test_they_go_to_the_page_as_json() -> None:
    presets = Presets.load().as_json()
    assert json.loads(json.dumps(presets))["designs"][0].keys() == {"name", "text"}


def test_a_misspelt_key_is_refused(tmp_path: Path) -> None:
    for file in FOLDER.glob("*.toml"):
        (tmp_path / file.name).write_text(file.read_text("utf-8"), "utf-8")
    (tmp_path / "designs.toml").write_text('[[design]]\nname = "A"\ntxet = "b"\n', "utf-8")
    with pytest.raises(TypeError, match="txet"):
        Presets.load(tmp_path)


def test_the_folder_holds_nothing_else() -> None:
    assert {file.name for file in FOLDER.iterdir()} == {"texts.toml", "designs.toml", "instructs.toml", "speakers.toml"}
