"""Tests for stored voices with a style, spoken by a CustomVoice checkpoint."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from runtime.engine.audio.voice_cache import VoiceCache
from runtime.errors import ModeNotServed, ReferenceTooShort
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Reference, SpeechRequest, VoicePrompt
from tests.conftest import FolderOf, Loaded
from tests.support.engines import (
    EventRecorder,
    cloned,
    custom_voice,
    engine_of,
    raise_refusal,
    speak,
    speak_together,
)
from tests.support.signals import voice
from tests.unit.engine.test_loading import tick_until, waiting_engine
from tests.unit.engine.test_voice_cache import counted, prompt_for

STYLE = "Slowly, in a low voice."
SAMPLES = voice(1.2, 11)


def styled(**kwargs: object) -> SpeechRequest:
    """Return a CustomVoice request with a style and with a voice from reference audio."""
    reference = Reference(samples=SAMPLES, text="I say hello.")
    return custom_voice(**{"voice": None, "instruct": STYLE, "reference": reference, **kwargs})


@pytest.fixture
def twins(speaker: Checkpoint, cloner: Checkpoint) -> tuple[Checkpoint, Checkpoint]:
    """Return CustomVoice and Base checkpoints with equal talkers."""
    return replace(speaker, talker=copy.deepcopy(cloner.talker)), cloner


def test_cloned_voice_in_custom_voice_equals_a_speaker_with_its_x_vector(
    twins: tuple[Checkpoint, Checkpoint],
) -> None:
    customs, base = twins
    x_vector = np.random.default_rng(3).normal(size=base.config.talker.hidden_size).astype(np.float32)
    prompt = VoicePrompt(fingerprint=base.fingerprint, x_vector=x_vector)
    engine = engine_of(*twins)
    recorder = speak(engine, styled(reference=Reference(samples=SAMPLES, prompt=prompt)))
    as_published = speak(engine, custom_voice(instruct=STYLE))
    assert len(recorder.codes) == 12
    assert not np.array_equal(as_published.codes, recorder.codes), "the voice counts"
    plain = speak(engine, styled(instruct=None, reference=Reference(samples=SAMPLES, prompt=prompt)))
    assert not np.array_equal(plain.codes, recorder.codes), "the style counts"
    with torch.inference_mode():
        row = customs.config.talker.spk_id["serena"]
        customs.talker.model.codec_embedding.weight[row] = torch.tensor(x_vector)
    expected = speak(engine_of(*twins), custom_voice(instruct=STYLE))
    assert np.array_equal(recorder.codes, expected.codes)
    assert np.array_equal(recorder.pcm, expected.pcm)


def test_both_checkpoints_share_one_encoding_of_the_reference(
    twins: tuple[Checkpoint, Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(*twins)
    reads = counted(VoiceCache, "read", monkeypatch)
    speak_together(engine, styled(), styled(instruct="Loud."), cloned(x_vector_only=True, max_frames=2))
    assert len(reads) == 2, "with and without the words of the recording"
    speak(engine, styled())
    assert len(reads) == 2


def test_stored_base_prompt_is_used_without_encoding_the_recording(
    twins: tuple[Checkpoint, Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(*twins)
    expected = speak(engine, styled())
    prompt = prompt_for(engine, cloned())
    encoded = counted(twins[1].speaker_encoder, "forward", monkeypatch)
    recorder = speak(engine, styled(reference=Reference(samples=SAMPLES, text="I say hello.", prompt=prompt)))
    assert not encoded
    assert np.array_equal(recorder.codes, expected.codes)


def test_note_explains_how_the_stored_voice_is_used(twins: tuple[Checkpoint, Checkpoint]) -> None:
    (note,) = speak(engine_of(*twins), styled(max_frames=1)).started.notes
    assert note == "Only the x-vector of the voice is used, so that a style can be applied; this is experimental."


def test_too_short_recording_is_refused(twins: tuple[Checkpoint, Checkpoint]) -> None:
    with pytest.raises(ReferenceTooShort):
        raise_refusal(engine_of(*twins), styled(reference=Reference(samples=SAMPLES[:10])))


@pytest.mark.parametrize("alone", [True, False], ids=["no Base checkpoint", "one of another size"])
def test_voices_cannot_be_styled_without_a_base_checkpoint_of_the_same_size(
    speaker: Checkpoint, loaded: Loaded, alone: bool
) -> None:
    engine = engine_of(speaker) if alone else engine_of(speaker, loaded("odd", "base"))
    assert not any(card.styles_voices for card in engine.cards)
    with pytest.raises(ModeNotServed):
        raise_refusal(engine, styled())
    assert len(speak(engine, custom_voice(max_frames=2)).codes) == 2


def test_model_cards_list_voice_styling_support(twins: tuple[Checkpoint, Checkpoint], designer: Checkpoint) -> None:
    engine = engine_of(*twins, designer)
    assert [card.styles_voices for card in engine.cards] == [True, False, False]
    plain = [replace(checkpoint, config=replace(checkpoint.config, takes_instruct=False)) for checkpoint in twins]
    assert not any(card.styles_voices for card in engine_of(*plain, designer).cards)


@pytest.mark.parametrize("order", [("custom_voice", "base"), ("base", "custom_voice")])
def test_first_request_loads_both_checkpoints(folder_of: FolderOf, order: tuple[str, str]) -> None:
    engine = waiting_engine(*(folder_of("brief", mode) for mode in order))
    recorder, plain, gone = EventRecorder(), EventRecorder(), EventRecorder()
    engine.submit(styled(max_frames=3), recorder)
    engine.submit(custom_voice(max_frames=3), plain)
    ticket = engine.submit(styled(), gone)
    engine.cancel(ticket)
    tick_until(engine, lambda: recorder.ended and plain.ended)
    assert len(recorder.codes) == len(plain.codes) == 3
    assert all(card.loaded for card in engine.cards)
    assert not gone.chunks
    again = speak(engine, styled(max_frames=3))
    assert np.array_equal(again.codes, recorder.codes)
