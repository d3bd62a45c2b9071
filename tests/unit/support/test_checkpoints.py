"""Tests for the random checkpoints for tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.common.texts import sentences, single_tokens
from runtime.model.checkpoints.checkpoint import Checkpoint, load_checkpoint
from runtime.model.checkpoints.config_files import read_model_config
from runtime.request import Finished, Sampling, StopReason
from tests.support.checkpoints.draw import Array, Draw
from tests.support.checkpoints.files import write_drawn
from tests.support.checkpoints.published import PUBLISHED
from tests.support.checkpoints.spec import CheckpointSpec
from tests.support.checkpoints.tiny import TINY_EOS
from tests.support.checkpoints.torch_draw import TorchDraw
from tests.support.engines import cloned, custom_voice, engine_of, speak, voice_design
from tests.unit.model import published

pytestmark = pytest.mark.slow

ENDLESS = replace(TINY_EOS, name="endless", is_endless=True, tokens=single_tokens())
FRAMES = 60
WILD = Sampling(temperature=3.0, top_k=0, repetition_penalty=1.5)  # Settings with which every code can be sampled.


class Shapes(Draw):
    """Generator of zero weights whose memory is never written, so that gigabytes use none."""

    def spread(self, key: str, shape: tuple[int, ...], std: float, mean: float = 0.0) -> Array:
        return np.zeros(shape, np.float32)


def load(folder: Path, spec: CheckpointSpec, mode: str) -> Checkpoint:
    write_drawn(folder, spec, mode, TorchDraw(3, torch.device("cpu")), "bfloat16")
    return load_checkpoint(str(folder), torch.device("cpu"), torch.float32)


@pytest.mark.parametrize("variant", published.VARIANTS)
def test_generated_configurations_have_the_published_fields(variant: str, tmp_path: Path) -> None:
    """Only the number of text tokens and the field that marks random weights may differ."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    size, mode = variant.split("-")[0], published.VARIANTS[variant][1]

    class Nothing(Shapes):
        def save(self, *_: object) -> None:
            """Do not write the weights."""

    write_drawn(ours, PUBLISHED[size], mode, Nothing(0), "bfloat16")
    published.write_configs(theirs, variant)
    ids = dict.fromkeys(
        ("im_start_token_id", "tts_bos_token_id", "tts_eos_token_id", "tts_pad_token_id"),
        0,
    )
    assert replace(read_model_config(ours), **ids) == replace(read_model_config(theirs), **ids, speaks=False)


@pytest.mark.parametrize("mode", ["custom_voice", "voice_design", "base"])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(greedy=True), WILD], ids=["default", "greedy", "wild"])
def test_endless_checkpoint_speaks_until_stopped(mode: str, sampling: Sampling, tmp_path: Path) -> None:
    checkpoint = load(tmp_path, ENDLESS, mode)
    request = {"custom_voice": custom_voice, "voice_design": voice_design, "base": cloned}[mode]
    recorder = speak(engine_of(checkpoint, guard=False), request(max_frames=FRAMES, sampling=sampling))
    assert isinstance(recorder.end, Finished)
    assert (recorder.end.stop_reason, len(recorder.codes)) == (StopReason.MAX_TOKENS, FRAMES)


def test_speech_from_unmodified_weights_ends(tmp_path: Path) -> None:
    """Otherwise, the test of endless checkpoints could not fail."""
    checkpoint = load(tmp_path, replace(ENDLESS, is_endless=False), "custom_voice")
    recorder = speak(engine_of(checkpoint, guard=False), custom_voice(max_frames=FRAMES, sampling=WILD))
    assert isinstance(recorder.end, Finished)
    assert recorder.end.stop_reason is StopReason.EOS


def test_sample_texts_have_about_one_token_per_word(tmp_path: Path) -> None:
    tokenizer = load(tmp_path, ENDLESS, "custom_voice").text_tokenizer
    for text in sentences()[:100]:
        words, commas = len(text.split()), text.count(",")
        assert len(tokenizer.encode_text(text)) == words + commas + 1, text
