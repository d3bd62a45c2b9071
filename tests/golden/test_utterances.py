"""Tests for the codes and audio of complete utterances, compared with the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from runtime.device.cpu import CpuDevice
from runtime.engine.audio.code2wav_streams import Code2WavStreams
from runtime.engine.audio.voice_cache import VoiceCache
from runtime.engine.cloned_voice import ClonedVoice
from runtime.engine.engine import Engine
from runtime.engine.execution.attention import PrefillAttention
from runtime.engine.execution.prompt import Prompt, build_prompt
from runtime.engine.execution.slots import SlotCache
from runtime.engine.scheduling.input_processor import admit
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.model.layers import Operations
from runtime.request import Reference, StopReason
from runtime.settings import Limits
from tests.conftest import Loaded
from tests.golden.stored import CASES, arrays, request_of
from tests.support.engines import engine_of, speak, speak_together

# Maximum absolute errors. The largest observed differences are about a tenth of them. Embeddings have values near 1,
# and logits near 4.
PROMPT_ATOL = 2e-5
LOGITS_ATOL = 1e-4
X_VECTOR_ATOL = 1e-5
# Expected samples are not rounded to 16 bits, which is an error of half a step. Samples that differ slightly may be
# rounded to adjacent steps, which adds one step.
PCM_ATOL = 1.6 / 32767

EngineOf = Callable[[dict[str, Any]], Engine]
CheckpointOf = Callable[[dict[str, Any]], Checkpoint]
LENGTH = 512  # Positions per slot.

per_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@pytest.fixture(scope="module")
def engine_for(loaded: Loaded) -> EngineOf:
    """Return a function that returns the engine for a test case.

    All cases of a checkpoint use the same engine and its slots, one after another.
    """
    engines = cache(lambda name, mode, seed: engine_of(loaded(name, mode, seed), slots=2))
    return lambda case: engines(case["checkpoint"], case["mode"], case["seed"])


@pytest.fixture
def checkpoint_of(loaded: Loaded) -> CheckpointOf:
    return lambda case: loaded(case["checkpoint"], case["mode"], case["seed"])


def encode(checkpoint: Checkpoint, reference: Reference) -> ClonedVoice:
    streams = Code2WavStreams(checkpoint.speech_tokenizer.code2wav, 1)
    return VoiceCache(checkpoint, CpuDevice(), 0, streams.after).read(reference, "reference")


def prompt_of(checkpoint: Checkpoint, case: dict[str, Any]) -> Prompt:
    admission, text_stream = admit(request_of(case), checkpoint, Limits(), LENGTH)
    utterance = admission.plan(text_stream.text, checkpoint.text_tokenizer).prompt_inputs
    if admission.reference is not None:
        utterance = replace(utterance, voice=encode(checkpoint, admission.reference))
    with torch.inference_mode():
        return build_prompt(utterance, checkpoint.config, checkpoint.text_tokenizer, checkpoint.talker)


@pytest.mark.quick(
    "cv_auto",
    "cv_stream_auto",
    "cv_0b6_instruct_dropped",
    "cv_long_stream",
    "odd_cv_penalty",
    "vd_auto",
    "xv_auto",
    "icl_short_stream",
    "eos_late",
)
@pytest.mark.slow
@per_case
def test_codes_equal_the_reference_implementation(engine_for: EngineOf, case: dict[str, Any]) -> None:
    recorder = speak(engine_for(case), request_of(case))
    assert np.array_equal(recorder.codes, arrays(case["name"])["codes"])
    expected = StopReason.EOS if case["stop"] == "eos" else StopReason.MAX_TOKENS
    assert recorder.end.stop_reason is expected
    assert recorder.end.stats.prompt_tokens == case["prompt_length"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["custom_voice", "voice_design", "base"])
@pytest.mark.parametrize("name", ["tiny", "odd"])
def test_batched_codes_equal_the_reference_implementation(loaded: Loaded, name: str, mode: str) -> None:
    cases = [case for case in CASES.values() if (case["checkpoint"], case["mode"]) == (name, mode)]
    engine = engine_of(loaded(name, mode, cases[0]["seed"]), slots=len(cases))
    for case, recorder in zip(cases, speak_together(engine, *map(request_of, cases), apart=1), strict=True):
        assert np.array_equal(recorder.codes, arrays(case["name"])["codes"]), case["name"]


@per_case
def test_prompt_embeddings_equal_the_reference_implementation(
    checkpoint_of: CheckpointOf, case: dict[str, Any]
) -> None:
    prompt = prompt_of(checkpoint_of(case), case)
    np.testing.assert_allclose(prompt.embeds.numpy(), arrays(case["name"])["prompt"], rtol=0, atol=PROMPT_ATOL)


@per_case
def test_first_logits_equal_the_reference_implementation(checkpoint_of: CheckpointOf, case: dict[str, Any]) -> None:
    checkpoint, device, ops = checkpoint_of(case), CpuDevice(), Operations()
    prompt, talker = prompt_of(checkpoint, case), checkpoint.talker
    with torch.inference_mode():
        slot_cache = SlotCache(checkpoint.config, 1, LENGTH, device.torch_device, torch.float32)
        attend = PrefillAttention(slot_cache, device, talker, 0, 0, len(prompt.embeds), ops)
        hidden = talker.decode(prompt.embeds.unsqueeze(0), attend, ops)
        logits = talker.logits(ops.norm(hidden[:, -1], talker.model.norm), ops)[0]
    np.testing.assert_allclose(logits.numpy(), arrays(case["name"])["first_logits"], rtol=0, atol=LOGITS_ATOL)


@per_case
def test_text_token_ids_equal_the_reference_implementation(checkpoint_of: CheckpointOf, case: dict[str, Any]) -> None:
    tokenizer = checkpoint_of(case).text_tokenizer
    role, ids = tokenizer.role_ids(), case["text_ids"]
    assert ids[: len(role)] == role
    assert tokenizer.encode_text(case["text"]) == ids[3:-5]


@pytest.mark.slow("cv_one_token", "icl_long_stream", "odd_icl_stream", "xv_english")
@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if case["keeps_waveform"]], ids=lambda case: case["name"]
)
def test_audio_equals_the_reference_implementation(engine_for: EngineOf, case: dict[str, Any]) -> None:
    waveform = arrays(case["name"])["waveform"]
    pcm = speak(engine_for(case), request_of(case)).pcm
    # The official package may be wrong by one sample when it removes the reference audio (docs/model.md 6.1).
    offset = len(pcm) - len(waveform)
    assert offset in ((0,) if case["reference"] is None else (0, 1, -1))
    if offset < 0:
        waveform, offset = waveform[-offset:], 0
    np.testing.assert_allclose(pcm[offset:] / 32767, waveform, rtol=0, atol=PCM_ATOL)


@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if "x_vector" in arrays(case["name"])], ids=lambda case: case["name"]
)
def test_encoded_reference_audio_equals_the_reference_implementation(
    checkpoint_of: CheckpointOf, case: dict[str, Any]
) -> None:
    reference = request_of(case).reference
    assert reference is not None
    voice = encode(checkpoint_of(case), reference)
    stored = arrays(case["name"])
    np.testing.assert_allclose(voice.x_vector.numpy(), stored["x_vector"], rtol=0, atol=X_VECTOR_ATOL)
    if voice.codes is not None:
        assert np.array_equal(voice.codes.numpy(), stored["reference_codes"])


@pytest.mark.parametrize("case", [case for case in CASES.values() if case["same_as"]], ids=lambda case: case["name"])
def test_ineffective_options_do_not_change_the_codes(case: dict[str, Any]) -> None:
    assert np.array_equal(arrays(case["name"])["codes"], arrays(case["same_as"])["codes"])


def test_stored_cases_cover_the_required_combinations() -> None:
    """There are at least thirty prompts in three modes and both layouts.

    The prompts cover all special rules of docs/model.md 3.
    """
    cases = CASES.values()
    assert len(CASES) >= 30
    assert {case["mode"] for case in cases} == {"custom_voice", "voice_design", "base"}
    for mode in ("custom_voice", "voice_design", "base"):
        assert {case["layout"] for case in cases if case["mode"] == mode} == {"streaming", "non_streaming"}
    assert {case["stop"] for case in cases} == {"eos", "length"}
    assert any(case["x_vector_only"] for case in cases)
    assert any(case["text"] == "a" for case in cases)
    assert any("iPhone" in case["text"] and "McDonald" in case["text"] for case in cases)
