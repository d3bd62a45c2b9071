"""Tests for the input processor, which validates a request for a checkpoint."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from runtime.engine.scheduling.input_processor import Admission, SegmentPlan, admit
from runtime.errors import (
    DoesNotFit,
    EmptyText,
    InvalidConfig,
    MissingReference,
    MissingReferenceText,
    ReferenceTooLong,
    ReferenceTooShort,
    SpeechError,
    TextTooLong,
    UnknownVoice,
    UnsupportedLanguage,
    UnsupportedLayout,
)
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.request import Layout, Reference, Sampling, SpeechRequest, Split
from runtime.settings import Limits
from tests.conftest import Loaded
from tests.support.engines import cloned, custom_voice, voice_design

LENGTH = 512


def admitted(request: SpeechRequest, checkpoint: Checkpoint, length: int = LENGTH, **limits: Any) -> Admission:
    admission, _ = admit(request, checkpoint, Limits(**limits), length)
    return admission


def planned(request: SpeechRequest, checkpoint: Checkpoint, length: int = LENGTH) -> SegmentPlan:
    """Validate a request with a single segment, and return the plan of the segment."""
    admission, text_stream = admit(request, checkpoint, Limits(), length)
    return admission.plan(text_stream.text, checkpoint.text_tokenizer)


@pytest.mark.parametrize("name", ["uncle_fu", "Uncle_Fu", "UNCLE_FU"])
def test_speaker_names_are_case_insensitive(speaker: Checkpoint, name: str) -> None:
    assert admitted(custom_voice(voice=name), speaker).prompt_inputs.speaker == "uncle_fu"


@pytest.mark.parametrize("name", [None, ""])
def test_first_speaker_is_the_default_and_is_reported_in_a_note(speaker: Checkpoint, name: str | None) -> None:
    admission = admitted(custom_voice(voice=name), speaker)
    assert admission.prompt_inputs.speaker == "serena"
    assert "first speaker" in admission.notes[0]


def test_unknown_speaker_error_lists_the_known_speakers(speaker: Checkpoint) -> None:
    with pytest.raises(UnknownVoice, match="serena, vivian, ryan, uncle_fu, eric, dylan") as caught:
        admitted(custom_voice(voice="Nobody Secret"), speaker)
    assert "Secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("language", "known"), [("English", "english"), ("AUTO", "auto"), ("", "auto"), ("sichuan_dialect",) * 2]
)
def test_language_names_are_case_insensitive(speaker: Checkpoint, language: str, known: str) -> None:
    assert admitted(custom_voice(language=language), speaker).prompt_inputs.language == known


@pytest.mark.parametrize("language", ["klingon", "en", "english "])
def test_unknown_language_error_lists_the_known_languages(speaker: Checkpoint, language: str) -> None:
    with pytest.raises(UnsupportedLanguage, match="auto or one of: chinese, english"):
        admitted(custom_voice(language=language), speaker)


def test_dialects_are_available_for_custom_voice_only(designer: Checkpoint) -> None:
    with pytest.raises(UnsupportedLanguage):
        admitted(voice_design(language="sichuan_dialect"), designer)


def test_each_mode_has_its_default_layout(speaker: Checkpoint, designer: Checkpoint, cloner: Checkpoint) -> None:
    assert admitted(custom_voice(), speaker).prompt_inputs.layout is Layout.NON_STREAMING
    assert admitted(voice_design(), designer).prompt_inputs.layout is Layout.NON_STREAMING
    assert admitted(cloned(), cloner).prompt_inputs.layout is Layout.STREAMING


def test_checkpoint_with_one_layout_refuses_the_other_layout(speaker: Checkpoint) -> None:
    only = replace(speaker.config, layouts=(Layout.STREAMING,), preferred_layout=Layout.STREAMING)
    streaming = replace(speaker, config=only)
    assert admitted(custom_voice(), streaming).prompt_inputs.layout is Layout.STREAMING
    with pytest.raises(UnsupportedLayout, match="it serves: streaming"):
        admitted(custom_voice(layout=Layout.NON_STREAMING), streaming)


def test_preferred_layout_of_a_checkpoint_overrides_the_layout_of_the_mode(cloner: Checkpoint) -> None:
    own = replace(cloner, config=replace(cloner.config, preferred_layout=Layout.NON_STREAMING))
    assert admitted(cloned(), own).prompt_inputs.layout is Layout.NON_STREAMING
    assert admitted(replace(cloned(), layout=Layout.STREAMING), own).prompt_inputs.layout is Layout.STREAMING


def test_base_mode_drops_an_instruct_with_a_note(cloner: Checkpoint) -> None:
    admission = admitted(replace(cloned(), instruct="Speak low."), cloner)
    assert admission.prompt_inputs.instruct is None
    assert "ignored" in admission.notes[0]


@pytest.mark.parametrize(
    ("words", "is_another"), [("Yes.", True), ("Yes. " * 60, True), ("I say hello, and good bye.", False)]
)
def test_implausible_transcript_is_noted(cloner: Checkpoint, words: str, *, is_another: bool) -> None:
    request = cloned(seconds=5.6)
    assert request.reference is not None
    admission = admitted(replace(request, reference=replace(request.reference, text=words)), cloner)
    assert bool(admission.notes) is is_another
    alone = admitted(replace(request, reference=replace(request.reference, text=words, x_vector_only=True)), cloner)
    assert not alone.notes


def test_truncated_instruct_is_noted(speaker: Checkpoint, designer: Checkpoint) -> None:
    admission = admitted(voice_design(instruct="word " * 101), designer)
    assert admission.prompt_inputs.instruct == ("word " * 100).strip()
    assert "more than 500 characters" in admission.notes[0]
    assert not admitted(voice_design(instruct=" " * 600 + "Low."), designer).notes


@pytest.mark.parametrize("text", ["hello there", " hello there\n", "\nhello there"])
def test_reference_text_is_stripped(cloner: Checkpoint, text: str) -> None:
    request = cloned()
    assert request.reference is not None
    admission = admitted(replace(request, reference=replace(request.reference, text=text)), cloner)
    assert admission.reference is not None
    assert admission.reference.text == "hello there"


@pytest.mark.parametrize(
    ("seconds", "text", "error"),
    [
        (0.99, "hello", ReferenceTooShort),
        (60.01, "hello", ReferenceTooLong),
        (2.0, None, MissingReferenceText),
        (2.0, " \n", MissingReferenceText),
        (2.0, "x" * 5000, TextTooLong),
        (2.0, "<|im_end|>", InvalidConfig),
        (2.0, "half \ud83d", InvalidConfig),
    ],
)
def test_unusable_reference_is_refused(
    cloner: Checkpoint, seconds: float, text: str | None, error: type[SpeechError]
) -> None:
    reference = Reference(samples=np.zeros(round(seconds * 24_000), np.float32), text=text)
    with pytest.raises(error) as caught:
        admitted(replace(cloned(), reference=reference), cloner, max_text_chars=4096)
    assert str(caught.value.param).startswith("ref_")


def test_base_mode_requires_a_reference_and_other_modes_ignore_it(cloner: Checkpoint, speaker: Checkpoint) -> None:
    with pytest.raises(MissingReference):
        admitted(replace(cloned(), reference=None), cloner)
    assert admitted(replace(custom_voice(), reference=cloned().reference), speaker).reference is None


def test_x_vector_cloning_needs_no_transcript(cloner: Checkpoint) -> None:
    reference = Reference(samples=np.zeros(24_000, np.float32), x_vector_only=True)
    admission = admitted(replace(cloned(), reference=reference), cloner)
    assert admission.reference is reference


@pytest.mark.parametrize("seed", [-1, 2**63, 10**30])
def test_seed_out_of_range_is_refused(speaker: Checkpoint, seed: int) -> None:
    with pytest.raises(InvalidConfig, match="seed"):
        admitted(custom_voice(seed=seed), speaker)


@pytest.mark.parametrize("prefix", ["", "predictor_"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_k", -1),
        ("top_k", 2**40),
        ("top_p", -0.1),
        ("top_p", 1.1),
        ("top_p", math.nan),
    ],
)
def test_invalid_sampling_parameters_are_refused(speaker: Checkpoint, prefix: str, name: str, value: float) -> None:
    with pytest.raises(InvalidConfig) as caught:
        admitted(custom_voice(sampling=Sampling(**{prefix + name: value})), speaker)
    assert caught.value.param == prefix + name


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_repetition_penalty_of_zero_is_refused(speaker: Checkpoint, value: float) -> None:
    with pytest.raises(InvalidConfig, match="repetition_penalty"):
        admitted(custom_voice(sampling=Sampling(repetition_penalty=value)), speaker)


@pytest.mark.parametrize("frames", [0, -1, 4097])
def test_max_frames_out_of_range_is_refused(speaker: Checkpoint, frames: int) -> None:
    with pytest.raises(InvalidConfig, match="1 to 4096"):
        admitted(custom_voice(max_frames=frames), speaker, length=10_000)


def test_request_that_needs_more_positions_than_a_slot_has_is_refused_with_both_numbers(speaker: Checkpoint) -> None:
    with pytest.raises(DoesNotFit) as caught:
        admitted(custom_voice(max_frames=4000), speaker)
    facts = caught.value.facts
    fits = LENGTH - facts["prompt"]
    assert (facts["frames"], facts["count"], facts["limit"]) == (4000, facts["prompt"] + 4000, LENGTH)
    assert planned(custom_voice(max_frames=fits), speaker).limit == fits
    with pytest.raises(DoesNotFit, match=f"needs {LENGTH + 1} positions"):
        admitted(custom_voice(max_frames=fits + 1), speaker)


def test_text_longer_than_a_slot_is_refused_if_splitting_is_off(speaker: Checkpoint) -> None:
    text = "a long story " * 40
    with pytest.raises(DoesNotFit) as caught:
        admitted(custom_voice(text, max_frames=None, split=Split.NONE), speaker, length=800)
    enough = int(str(caught.value.facts["count"]))
    assert (
        planned(custom_voice(text, max_frames=None, split=Split.NONE), speaker, enough).limit
        == (caught.value.facts["frames"])
    )


def test_long_reference_counts_towards_the_slot(cloner: Checkpoint) -> None:
    with pytest.raises(DoesNotFit):
        admitted(cloned(seconds=10.0, max_frames=50), cloner, length=150)
    assert planned(cloned(seconds=1.2, max_frames=50), cloner, length=150).limit == 50


def test_text_is_validated_before_other_fields(speaker: Checkpoint) -> None:
    with pytest.raises(EmptyText):
        admitted(custom_voice("", voice="nobody"), speaker)


def test_unusual_speaker_and_language_tables_are_supported(loaded: Loaded) -> None:
    admission = admitted(custom_voice(voice="MEI"), loaded("odd", "custom_voice"))
    assert admission.prompt_inputs.speaker == "mei"
    assert admission.prompt_inputs.language == "cantonese_dialect"
    assert admission.settings.repetition_penalty == 1.2
