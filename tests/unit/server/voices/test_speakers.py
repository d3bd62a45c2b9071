"""Tests for the list of speakers of all checkpoints on one port."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.request import Mode
from runtime.server.voices.speakers import Speaker, Speakers, speakers_of
from tests.support.scripted_engine import CARD

ELSEWHERE = {"id": "b", "created": 7, "modes": ["custom_voice"], "speakers": ["mia", "clara"], "languages": ["german"]}


def test_own_speakers_precede_speakers_of_other_servers_and_names_are_unique(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.json"
    file.write_text(json.dumps([ELSEWHERE, {**ELSEWHERE, "id": "c", "modes": ["base"], "speakers": ["nobody"]}]))
    found = Speakers(str(file)).by_name([replace(CARD, name="a", modes=(Mode.CUSTOM_VOICE,), speakers=("clara",))])
    assert [(speaker.name, speaker.model) for speaker in found.values()] == [("clara", "a"), ("mia", "b")]
    assert found["mia"] == Speaker(name="mia", model="b", language="german", created=7)


@pytest.mark.parametrize("text", ["", "[", "7", "[7]", '[{"id": "a"}]'])
def test_invalid_checkpoint_list_is_ignored(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        speakers_of(text)


def test_checkpoint_without_custom_voice_lists_no_speakers() -> None:
    assert Speakers("").by_name([replace(CARD, modes=(Mode.BASE,), speakers=("clara",))]) == {}
