"""Speakers of other checkpoints behind the same port are known beside one's own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.request import Mode
from runtime.server.voices.speakers import Speaker, Speakers, speakers_of
from tests.support.scripted_engine import CARD

ELSEWHERE = {"id": "b", "created": 7, "modes": ["custom_voice"], "speakers": ["mia", "clara"], "languages": ["german"]}


def test_ours_come_first_and_a_name_means_one(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.json"
    file.write_text(json.dumps([ELSEWHERE, {**ELSEWHERE, "id": "c", "modes": ["base"], "speakers": ["nobody"]}]))
    found = Speakers(str(file)).beside([replace(CARD, name="a", modes=(Mode.CUSTOM_VOICE,), speakers=("clara",))])
    assert [(speaker.name, speaker.model) for speaker in found.values()] == [("clara", "a"), ("mia", "b")]
    assert found["mia"] == Speaker(name="mia", model="b", language="german", created=7)


@pytest.mark.parametrize("text", ["", "[", "7", "[7]", '[{"id": "a"}]'])
def test_what_is_no_list_of_checkpoints_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        speakers_of(text)


def test_a_checkpoint_that_does_not_serve_its_speakers_has_none() -> None:
    assert Speakers("").beside([replace(CARD, modes=(Mode.BASE,), speakers=("clara",))]) == {}
