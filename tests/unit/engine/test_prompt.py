"""Tests for the prompt layout, compared with the tables in docs/model.md 3.2 to 3.5."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from runtime.engine.cloned_voice import ClonedVoice
from runtime.engine.execution.prompt import (
    Prompt,
    PromptColumns,
    PromptInputs,
    build_prompt,
    prompt_length,
    spoken_language,
)
from runtime.engine.scheduling.input_processor import admit
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.model.talker import NO_CODEC
from runtime.request import Layout, Mode
from runtime.settings import Limits
from tests.conftest import Loaded
from tests.support.engines import custom_voice

TEXT, INSTRUCT, REFERENCE_TEXT = "Hello world.", "Speak low.", "I say hello, hello."


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> list[PromptColumns]:
    """Record the columns of every prompt before they are embedded."""
    from runtime.engine.execution import prompt

    seen: list[PromptColumns] = []
    embed = prompt._embed

    def watched(written: PromptColumns, *rest: object) -> torch.Tensor:
        seen.append(written)
        return embed(written, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(prompt, "_embed", watched)
    return seen


@torch.inference_mode()
def build(checkpoint: Checkpoint, utterance: PromptInputs) -> Prompt:
    return build_prompt(utterance, checkpoint.config, checkpoint.text_tokenizer, checkpoint.talker)


def utterance(mode: Mode, layout: Layout, **kwargs: object) -> PromptInputs:
    return PromptInputs(text=TEXT, mode=mode, layout=layout, **{"language": "auto", **kwargs})  # type: ignore[arg-type]


def voice(checkpoint: Checkpoint, frames: int | None) -> ClonedVoice:
    talker = checkpoint.config.talker
    vector = torch.full((talker.hidden_size,), 0.5)
    if frames is None:
        return ClonedVoice(vector)
    codes = torch.arange(frames * talker.num_code_groups).view(frames, -1) % 64
    return ClonedVoice(vector, codes, REFERENCE_TEXT)


def prefix(checkpoint: Checkpoint, language: str | None, speaker: int | None) -> tuple[list[int], list[int]]:
    """Return the text IDs and codec IDs of the prompt prefix (docs/model.md 3.2).

    NO_CODEC is a placeholder for an x-vector.
    """
    config, talker = checkpoint.config, checkpoint.config.talker
    if language is None:
        tags = [talker.codec_nothink_id, talker.codec_think_bos_id, talker.codec_think_eos_id]
    else:
        language_id = talker.codec_language_id[language]
        tags = [talker.codec_think_id, talker.codec_think_bos_id, language_id, talker.codec_think_eos_id]
    tags += [] if speaker is None else [speaker]
    text = [*checkpoint.text_tokenizer.role_ids(), *[config.tts_pad_token_id] * len(tags), config.tts_bos_token_id]
    return text, [NO_CODEC] * 3 + tags + [talker.codec_pad_id]


@pytest.mark.parametrize(("language", "positions"), [(None, 8), ("english", 9)])
def test_custom_voice_prompt_follows_the_non_streaming_layout(
    speaker: Checkpoint, columns: list[PromptColumns], language: str | None, positions: int
) -> None:
    config, talker = speaker.config, speaker.config.talker
    prompt = build(
        speaker, utterance(Mode.CUSTOM_VOICE, Layout.NON_STREAMING, language=language or "auto", speaker="ryan")
    )
    text, codec = prefix(speaker, language, talker.spk_id["ryan"])
    assert len(text) == positions
    body = speaker.text_tokenizer.encode_text(TEXT)
    assert columns[0].text == [*text, *body, config.tts_eos_token_id, config.tts_pad_token_id]
    assert columns[0].codec == [*codec, *[talker.codec_pad_id] * (len(body) + 1), talker.codec_bos_id]
    assert prompt.trailing == []
    assert len(prompt.embeds) == positions + len(body) + 2


def test_prompt_has_ids_if_the_talker_has_tables(speaker: Checkpoint) -> None:
    """The embeddings of a voice are not in the tables, so a prompt with a voice is embedded."""
    tabulated = copy.deepcopy(speaker)
    tabulated.talker.tabulate()
    said = utterance(Mode.CUSTOM_VOICE, Layout.NON_STREAMING, speaker="ryan")
    ids = build(tabulated, said).inputs
    assert isinstance(ids, np.ndarray)
    text, codec = torch.from_numpy(ids).unbind(1)
    embeds = speaker.talker.embed_text(text) + speaker.talker.embed_codec_or_none(codec)
    torch.testing.assert_close(embeds, build(speaker, said).embeds, rtol=0, atol=0)
    assert isinstance(build(tabulated, replace(said, voice=voice(speaker, None))).inputs, torch.Tensor)


def test_custom_voice_prompt_follows_the_streaming_layout(speaker: Checkpoint, columns: list[PromptColumns]) -> None:
    config, talker = speaker.config, speaker.config.talker
    prompt = build(speaker, utterance(Mode.CUSTOM_VOICE, Layout.STREAMING, language="english", speaker="ryan"))
    text, codec = prefix(speaker, "english", talker.spk_id["ryan"])
    first, *rest = speaker.text_tokenizer.encode_text(TEXT)
    assert columns[0].text == [*text, first]
    assert columns[0].codec == [*codec, talker.codec_bos_id]
    assert prompt.trailing == [*rest, config.tts_eos_token_id]


@pytest.mark.parametrize(("language", "positions"), [(None, 7), ("english", 8)])
def test_voice_design_prompt_has_no_speaker_and_starts_with_its_instruct(
    designer: Checkpoint, columns: list[PromptColumns], language: str | None, positions: int
) -> None:
    build(designer, utterance(Mode.VOICE_DESIGN, Layout.STREAMING, language=language or "auto", instruct=INSTRUCT))
    text, codec = prefix(designer, language, None)
    assert len(text) == positions
    instruct = designer.text_tokenizer.encode_instruct(INSTRUCT)
    assert columns[0].text[:-1] == [*instruct, *text]
    assert columns[0].codec[:-1] == [*[NO_CODEC] * len(instruct), *codec]


@pytest.mark.parametrize("layout", list(Layout))
def test_x_vector_replaces_the_speaker_embedding(
    cloner: Checkpoint, columns: list[PromptColumns], layout: Layout
) -> None:
    cloned = voice(cloner, None)
    prompt = build(cloner, utterance(Mode.BASE, layout, voice=cloned))
    text, codec = prefix(cloner, None, NO_CODEC)
    assert columns[0].text[: len(text)] == text
    assert columns[0].codec[: len(codec)] == codec
    assert columns[0].x_vector_at == 6
    with torch.inference_mode():
        pad = cloner.talker.embed_text(torch.tensor(cloner.config.tts_pad_token_id))
    torch.testing.assert_close(prompt.embeds[6], pad + cloned.x_vector)


def test_reference_follows_the_text_in_the_non_streaming_layout(
    cloner: Checkpoint, columns: list[PromptColumns]
) -> None:
    config, talker, frames = cloner.config, cloner.config.talker, 5
    prompt = build(cloner, utterance(Mode.BASE, Layout.NON_STREAMING, voice=voice(cloner, frames)))
    text, codec = prefix(cloner, None, NO_CODEC)
    said = [
        *cloner.text_tokenizer.encode_text(REFERENCE_TEXT),
        *cloner.text_tokenizer.encode_text(TEXT),
        config.tts_eos_token_id,
    ]
    assert columns[0].text == [*text, *said, *[config.tts_pad_token_id] * (frames + 1)]
    assert columns[0].codec == [*codec, *[talker.codec_pad_id] * len(said), talker.codec_bos_id, *[NO_CODEC] * frames]
    assert columns[0].frames_at == len(text) + len(said) + 1
    assert prompt.trailing == []


@pytest.mark.parametrize("frames", [1, 4, 30, 31, 32, 33, 60])
def test_reference_is_added_to_the_text_in_the_streaming_layout(
    cloner: Checkpoint, columns: list[PromptColumns], frames: int
) -> None:
    config, talker = cloner.config, cloner.config.talker
    prompt = build(cloner, utterance(Mode.BASE, Layout.STREAMING, voice=voice(cloner, frames)))
    text, codec = prefix(cloner, None, NO_CODEC)
    said = [
        *cloner.text_tokenizer.encode_text(REFERENCE_TEXT),
        *cloner.text_tokenizer.encode_text(TEXT),
        config.tts_eos_token_id,
    ]
    beside = said[: frames + 1] + [config.tts_pad_token_id] * (frames + 1 - len(said))
    assert columns[0].text == [*text, *beside]
    assert columns[0].codec == [*codec, talker.codec_bos_id, *[NO_CODEC] * frames]
    assert prompt.trailing == said[frames + 1 :]


def test_reference_frame_input_is_the_sum_of_its_codes(cloner: Checkpoint, columns: list[PromptColumns]) -> None:
    cloned = voice(cloner, 5)
    assert cloned.codes is not None
    prompt = build(cloner, utterance(Mode.BASE, Layout.NON_STREAMING, voice=cloned))
    start = columns[0].frames_at
    talker = cloner.talker
    with torch.inference_mode():
        pad = talker.embed_text(torch.tensor(cloner.config.tts_pad_token_id))
        tables = [talker.model.codec_embedding, *talker.code_predictor.model.codec_embedding]
        for frame in range(5):
            codes = cloned.codes[frame]
            total = sum((table(codes[group]) for group, table in enumerate(tables)), pad)
            torch.testing.assert_close(prompt.embeds[start + frame], total, rtol=0, atol=1e-5)


@pytest.mark.parametrize("spec", ["tiny", "odd"])
@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("language", ["auto", "english"])
@pytest.mark.parametrize("frames", [None, 1, 10, 60])
def test_estimated_prompt_length_equals_the_actual_length(
    loaded: Loaded, spec: str, layout: Layout, language: str, frames: int | None
) -> None:
    words = {"language": language}
    for mode, own in (
        (Mode.CUSTOM_VOICE, {"speaker": "any"}),
        (Mode.CUSTOM_VOICE, {"speaker": "any", "instruct": INSTRUCT}),
        (Mode.VOICE_DESIGN, {"instruct": INSTRUCT}),
        (Mode.VOICE_DESIGN, {}),
        (Mode.BASE, {}),
    ):
        checkpoint = loaded(spec, mode)
        said = utterance(mode, layout, **words, **own)
        if said.speaker:
            said = replace(said, speaker=next(iter(checkpoint.config.talker.spk_id)))
        reference_text = ""
        if mode is Mode.BASE:
            said = replace(said, voice=voice(checkpoint, frames))
            reference_text = REFERENCE_TEXT if frames else ""
        codes = (frames or 0) if mode is Mode.BASE else 0
        reckoned = prompt_length(said, codes, reference_text, checkpoint.text_tokenizer)
        assert reckoned == len(build(checkpoint, said).embeds)


@pytest.mark.parametrize(
    ("asked", "speaker_name", "spoken"),
    [
        ("auto", "eric", "sichuan_dialect"),
        ("chinese", "eric", "sichuan_dialect"),
        ("english", "eric", "english"),
        ("auto", "dylan", "beijing_dialect"),
        ("auto", "serena", "auto"),
        ("chinese", "serena", "chinese"),
        ("auto", None, "auto"),
    ],
)
def test_dialect_speakers_use_their_dialect_for_chinese_and_auto(
    speaker: Checkpoint, asked: str, speaker_name: str | None, spoken: str
) -> None:
    assert spoken_language(asked, speaker_name, speaker.config) == spoken


@pytest.mark.parametrize(("spec", "taken"), [("tiny", True), ("tiny_0b6", False)])
def test_0b6_custom_voice_checkpoint_ignores_the_instruct_and_adds_a_note(
    loaded: Loaded, spec: str, taken: bool
) -> None:
    admission, _ = admit(custom_voice(instruct=INSTRUCT), loaded(spec, "custom_voice"), Limits(), 512)
    assert (admission.prompt_inputs.instruct == INSTRUCT) == taken
    assert bool(admission.notes) != taken
