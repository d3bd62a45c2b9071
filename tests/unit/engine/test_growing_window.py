"""Tests for decoding with caches, compared with a slow implementation without caches.

The slow implementation processes the whole sequence again for every code.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from runtime.engine.cloned_voice import ClonedVoice
from runtime.engine.execution.prompt import Prompt, build_prompt
from runtime.engine.execution.sampling import gumbel_noise
from runtime.engine.scheduling.input_processor import admit
from runtime.model.checkpoints.checkpoint import Checkpoint
from runtime.model.layers import Attention, DecoderStack, Operations, join_heads
from runtime.model.talker import Talker
from runtime.request import Layout, Sampling, SpeechRequest
from runtime.settings import Limits
from tests.conftest import Loaded
from tests.support.engines import Codes, cloned, custom_voice, engine_of, speak_together

pytestmark = pytest.mark.slow

BATCHES = (4, 1, 3, 8, 2)  # Sizes of the batches that run one after the other on the same engine.


class Attending:
    """Causal attention over the complete sequence, for a model without a KV cache."""

    def __init__(self, stack: DecoderStack, length: int) -> None:
        self.angles = stack.angles(torch.arange(length).unsqueeze(0), torch.float32)

    def __call__(self, _layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        q, k, v = attention.heads_of(qkv, *self.angles)
        heads, length = q.shape[1] // k.shape[1], q.shape[2]
        k, v = k.repeat_interleave(heads, dim=1), v.repeat_interleave(heads, dim=1)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        return join_heads(scores.masked_fill(later, -torch.inf).softmax(dim=-1) @ v)


def whole(stack: DecoderStack, x: Tensor) -> Tensor:
    """Return the output of a decoder stack for the complete sequence, after the final norm.

    Shapes: x, result [1, T, H].
    """
    return stack.norm(stack.decode(x, Attending(stack, x.shape[1]), Operations()))


def first_code(logits: Tensor, history: list[int], penalty: float, eos: int, noise: Tensor | None) -> int:
    """Return a code that is sampled at temperature 1 after the talker's sampling rules.

    The rules are in docs/model.md 4.
    """
    scores = logits.clone()
    for code in set(history):
        scores[code] = scores[code] / penalty if scores[code] > 0 else scores[code] * penalty
    end = float(scores[eos])
    scores[-1024:] = -torch.inf
    scores[eos] = end if len(history) >= 2 else -torch.inf
    return int((scores if noise is None else scores + noise).argmax())


def other_codes(talker: Talker, hidden: Tensor, first: int, noise: Tensor | None) -> list[int]:
    """Sample the codes of codebooks 1 to Q-1 for one frame, and return them.

    The whole input of the code predictor is computed again for each code.
    """
    predictor = talker.code_predictor
    inputs, codes = [hidden, talker.embed_codec(torch.tensor(first))], []
    for group, head in enumerate(predictor.lm_head):
        x = predictor.small_to_mtp_projection(torch.stack(inputs).unsqueeze(0))
        scores = head(whole(predictor.model, x)[0, -1])
        codes.append(int((scores if noise is None else scores + noise[group + 1, : len(scores)]).argmax()))
        inputs.append(predictor.model.codec_embedding[group](torch.tensor(codes[-1])))
    return codes


def slow_codes(checkpoint: Checkpoint, prompt: Prompt, frames: int, seed: int, penalty: float, greedy: bool) -> Codes:
    """Return the codes of a prompt, computed like the reference but without any cache."""
    talker, config = checkpoint.talker, checkpoint.config.talker
    inputs, made = prompt.embeds, []
    while len(made) < frames:
        hidden = whole(talker.model, inputs.unsqueeze(0))[0, -1]
        noise = None
        if not greedy:
            noise = gumbel_noise(
                torch.tensor([seed]), torch.tensor([len(made)]), config.num_code_groups, config.vocab_size
            )[0]
        history = [codes[0] for codes in made]
        logits = talker.logits(hidden, Operations())
        first = first_code(logits, history, penalty, config.codec_eos_token_id, None if noise is None else noise[0])
        if first == config.codec_eos_token_id:
            break
        made.append([first, *other_codes(talker, hidden, first, noise)])
        coming = [*prompt.trailing, *[checkpoint.config.tts_pad_token_id] * frames]
        text = talker.embed_text(torch.tensor(coming[len(made) - 1]))
        inputs = torch.cat((inputs, (talker.embed_frames(torch.tensor(made[-1])) + text).unsqueeze(0)))
    return np.array(made)


def slow(checkpoint: Checkpoint, request: SpeechRequest) -> Codes:
    admission, text_stream = admit(request, checkpoint, Limits(), 512)
    plan = admission.plan(text_stream.text, checkpoint.text_tokenizer)
    utterance = plan.prompt_inputs
    with torch.inference_mode():
        if request.reference is not None:
            samples = torch.from_numpy(request.reference.samples)
            assert checkpoint.speaker_encoder is not None
            codes = checkpoint.speech_tokenizer.encoder(samples)
            voice = ClonedVoice(checkpoint.speaker_encoder(samples), codes, request.reference.text)
            utterance = replace(utterance, voice=voice)
        prompt = build_prompt(utterance, checkpoint.config, checkpoint.text_tokenizer, checkpoint.talker)
        settings = admission.settings
        return slow_codes(
            checkpoint,
            prompt,
            plan.limit,
            request.seed or 0,
            settings.repetition_penalty,
            settings.talker.greedy,
        )


@pytest.mark.parametrize("spec", ["tiny", "odd"])
@pytest.mark.parametrize("greedy", [True, False], ids=["greedy", "sampled"])
def test_batched_codes_equal_those_without_a_kv_cache(loaded: Loaded, spec: str, greedy: bool) -> None:
    checkpoint = loaded(spec, "custom_voice")
    voices = list(checkpoint.config.talker.spk_id)
    sampling = Sampling(greedy=True)
    if not greedy:
        sampling = Sampling(temperature=1.0, top_k=0, predictor_temperature=1.0, predictor_top_k=0)
    engine, serial = engine_of(checkpoint, slots=max(BATCHES)), 0
    for size in BATCHES:
        requests = []
        for _ in range(size):
            serial += 1
            requests.append(
                custom_voice(
                    "Hello world, I say it again."[: 3 + serial],
                    voice=voices[serial % len(voices)],
                    layout=list(Layout)[serial % 2],
                    max_frames=2 + serial % 7,
                    sampling=sampling,
                    seed=serial,
                )
            )
        for request, recorder in zip(requests, speak_together(engine, *requests), strict=True):
            assert np.array_equal(recorder.codes, slow(checkpoint, request))


@pytest.mark.parametrize("layout", list(Layout))
def test_cloned_codes_equal_those_without_a_kv_cache(cloner: Checkpoint, layout: Layout) -> None:
    request = cloned(layout=layout, max_frames=8)
    (recorder,) = speak_together(engine_of(cloner), request)
    assert np.array_equal(recorder.codes, slow(cloner, request))


def test_repetition_penalty_counts_every_drawn_code(speaker: Checkpoint) -> None:
    """Without the penalty, codes repeat.

    With the penalty, the codes equal those of the slow implementation.
    """
    sampling = Sampling(greedy=True, repetition_penalty=1.6)
    request = custom_voice("Hello world.", sampling=sampling, max_frames=60)
    (recorder,) = speak_together(engine_of(speaker), request)
    assert np.array_equal(recorder.codes, slow(speaker, request))
    (without,) = speak_together(engine_of(speaker), custom_voice("Hello world.", max_frames=60))
    assert not np.array_equal(recorder.codes, without.codes)
