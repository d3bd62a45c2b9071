"""Tests that our networks have exactly the published weight names and shapes.

The lists are described in docs/model.md 1 and 2.
"""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from runtime.model.checkpoints.config_files import read_model_config
from runtime.model.checkpoints.weights import on_meta, tensor_destinations
from runtime.model.code2wav import Code2Wav
from runtime.model.speaker_encoder import SpeakerEncoder
from runtime.model.speech_encoder import SpeechEncoder
from runtime.model.talker import Talker
from runtime.request import Layout, Mode
from tests.unit.model.published import VARIANTS, keys, speech_tokenizer_config, write_configs

TENSORS_AND_PARAMETERS = {
    "0.6B-Base": (478, 914_643_008),
    "0.6B-CustomVoice": (402, 905_788_672),
    "1.7B-Base": (480, 1_928_677_440),
    "1.7B-CustomVoice": (404, 1_916_676_352),
    "1.7B-VoiceDesign": (404, 1_916_676_352),
}

Shapes = dict[str, tuple[int, ...]]

per_variant = pytest.mark.parametrize("variant", VARIANTS)


def shapes_of(folder: Path) -> Shapes:
    """Return the shape of every tensor that a configuration needs, keyed by published name."""
    config = read_model_config(folder)
    with on_meta():
        networks = {"talker.": Talker(config)}
        if config.speaker_encoder is not None:
            networks["speaker_encoder."] = SpeakerEncoder(config.speaker_encoder)
    return {
        key: place.shape
        for prefix, network in networks.items()
        for key, place in tensor_destinations(network, prefix).items()
    }


@per_variant
def test_tensor_names_and_shapes_equal_the_published_list(tmp_path: Path, variant: str) -> None:
    size, mode = VARIANTS[variant]
    write_configs(tmp_path, variant)
    published = {
        key: shape for key, shape in keys(size).items() if mode == "base" or not key.startswith("speaker_encoder.")
    }
    ours = shapes_of(tmp_path)
    assert ours == published
    assert (len(ours), sum(prod(shape) for shape in ours.values())) == TENSORS_AND_PARAMETERS[variant]


def test_speech_tokenizer_has_the_published_tensor_names_and_shapes() -> None:
    config = speech_tokenizer_config()
    with on_meta():
        decoder = Code2Wav(config.code2wav)
        encoder = SpeechEncoder(config.encoder, config.encoder_valid_num_quantizers, config.encode_downsample_rate)
    ours = {
        key: place.shape
        for prefix, network in (("decoder.", decoder), ("encoder.", encoder))
        for key, place in tensor_destinations(network, prefix).items()
    }
    assert ours == keys("tok")
    assert sum(prod(shape) for shape in ours.values()) == 170_557_441


@per_variant
def test_variant_serves_its_own_mode_in_both_layouts(tmp_path: Path, variant: str) -> None:
    size, mode = VARIANTS[variant]
    write_configs(tmp_path, variant)
    config = read_model_config(tmp_path)
    assert config.modes == (Mode(mode),)
    assert config.layouts == tuple(Layout)
    assert config.speaks
    assert config.takes_instruct == (size == "1b7")
    assert (config.speaker_encoder is not None) == (mode == "base")
    assert len(config.talker.spk_id) == (9 if mode == "custom_voice" else 0)
    assert config.talker.codec_eos_token_id == 2150
    assert config.generation.repetition_penalty == 1.05


@pytest.mark.parametrize("speaker", ["eric", "dylan"])
def test_dialect_speakers_are_known(tmp_path: Path, speaker: str) -> None:
    write_configs(tmp_path, "0.6B-CustomVoice")
    talker = read_model_config(tmp_path).talker
    assert talker.spk_is_dialect[speaker] in talker.codec_language_id
