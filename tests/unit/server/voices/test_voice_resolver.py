"""Tests for the voice resolver: the voice of a request, and notes about replaced names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.errors import UnknownModel, UnknownVoice
from runtime.request import DESCRIBED_VOICE, OTHER_SPEAKER, RECORDED_VOICE, STORED_NAMESAKE, Mode
from runtime.server.voices.voice_library import VoiceCard
from runtime.server.voices.voice_resolver import ResolvedVoice, VoiceResolver
from tests.support.library import MemoryLibrary
from tests.unit.server.driver import CARD, CLONER
from tests.unit.server.native.driver import REFERENCE, two_voices

DESIGNER = replace(CARD, name="designer", modes=(Mode.VOICE_DESIGN,), speakers=())
ALL = (CARD, CLONER, DESIGNER)


def resolved(voice: str | None, mode: Mode | None = None, *, has_reference: bool = False) -> ResolvedVoice:
    resolver = VoiceResolver(ALL, two_voices())
    return resolver.resolve(mode=mode, model=None, voice=voice, has_reference=has_reference)


@pytest.mark.parametrize("voice", ["anna", "BERT", "clara", "voice:Quiet", None, ""])
def test_exactly_matched_voice_needs_no_note(voice: str | None) -> None:
    assert resolved(voice).notes == ()


def test_voice_name_of_another_service_maps_to_a_speaker_with_a_note() -> None:
    for name, speaker in (("alloy", "anna"), ("Ash", "bert")):
        found = resolved(name)
        assert (found.speaker, found.notes) == (speaker, (OTHER_SPEAKER.format(speaker=speaker),))


def test_stored_voice_overrides_a_name_of_another_service_with_a_note() -> None:
    resolver = VoiceResolver(ALL, MemoryLibrary((VoiceCard(id="1f", name="Nova"), REFERENCE)))
    for name, notes in (("nova", (STORED_NAMESAKE,)), ("voice:Nova", ()), ("1f", ())):
        found = resolver.resolve(mode=None, model=None, voice=name, has_reference=False)
        assert (found.stored, found.notes) == ("1f", notes)


@pytest.mark.parametrize("voice", ["alloy", "anna", "clara", "nobody"])
def test_voice_next_to_a_description_or_recording_is_ignored_with_a_note(voice: str) -> None:
    assert resolved(voice, Mode.VOICE_DESIGN).notes == (DESCRIBED_VOICE,)
    assert resolved(voice, Mode.BASE, has_reference=True).notes == (RECORDED_VOICE,)
    assert resolved(voice, has_reference=True).notes == (RECORDED_VOICE,)
    assert not resolved(None, Mode.VOICE_DESIGN).notes


def test_voice_design_only_server_notes_an_ignored_voice_name() -> None:
    resolver = VoiceResolver((DESIGNER,), two_voices())
    assert resolver.resolve_foreign(model="sonic-3", voice="alloy").notes == (DESCRIBED_VOICE,)


def test_adapter_is_a_model_with_its_own_speakers() -> None:
    card = replace(CARD, name="base", adapters={"first": ("anna",), "second": ("bert", "carl")})
    resolver = VoiceResolver((replace(card, speakers=("anna", "bert", "carl")),), two_voices())

    def speaker(model: str | None, voice: str | None) -> str | None:
        return resolver.resolve(mode=None, model=model, voice=voice, has_reference=False).speaker

    assert [speaker(model, "bert") for model in (None, "base", "tts-1", "second")] == ["bert"] * 4
    assert [speaker(model, None) for model in (None, "base", "first", "second")] == [None, None, "anna", "bert"]
    with pytest.raises(UnknownVoice):
        speaker("first", "bert")
    with pytest.raises(UnknownModel):
        speaker("third", "bert")
    assert resolver.resolve_foreign(model="second", voice=None).speaker == "bert"
    assert resolver.resolve_foreign(model="sonic-3", voice=None).speaker is None
