"""Fixtures for the training recipe of the embedded voice, with small sizes."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

RECIPE = Path(__file__).parents[3] / "tools" / "demo_voice"
MODULES = ("codec_model", "config", "export", "kokoro_model", "lm_model", "phonemes",
           "prompts", "recognise", "speak", "stage", "store", "train_codec", "train_lm")  # fmt: skip
LAYERS = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 64}
CODEC_LAYERS = {**LAYERS, "hidden_size": 32, "num_key_value_heads": 2, "head_dim": 16, "codebook_size": 512}
SMALL_TALKER = {
    **LAYERS,
    "num_hidden_layers": 2,
    "intermediate_size": 96,
    "text_hidden_size": 64,
    "text_vocab_size": 2064,
}
SMALL_PREDICTOR = {**LAYERS, "num_hidden_layers": 1, "vocab_size": 512}
SMALL = {
    "speaker_encoder_config": {"enc_dim": 64, "enc_channels": [32, 32, 32, 32, 96], "enc_attention_channels": 8,
                               "enc_se_channels": 8},
    "encoder_config": {**CODEC_LAYERS, "num_filters": 4, "codebook_dim": 16,
                       "vector_quantization_hidden_dimension": 16, "upsample_groups": 32},
    "decoder_config": {**CODEC_LAYERS, "codebook_dim": 32, "latent_dim": 32, "decoder_dim": 32},
}  # fmt: skip


def small_voice(source: Path, folder: Path) -> Path:
    """Copy the JSON files of a voice to a new folder, with small sizes of the networks."""
    for path in source.rglob("*.json"):
        content = json.loads(path.read_text())
        for part, sizes in SMALL.items():
            if part in content:
                content[part] |= sizes
        if talker := content.get("talker_config"):
            talker["code_predictor_config"] |= SMALL_PREDICTOR
            for ids in (talker, talker["spk_id"], talker["codec_language_id"]):  # The special ids follow the codes.
                ids |= {name: value - 512 for name, value in ids.items() if type(value) is int and value > 1024}
            talker |= SMALL_TALKER
        copied = folder / path.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ModuleType]]:
    """Import the modules of the recipe, and yield them by name.

    After the tests, the modules and their folder are removed from `sys`.
    """
    before = set(sys.modules)
    path = list(sys.path)
    sys.path.insert(0, str(RECIPE))
    config: Any = importlib.import_module("config")
    config.VOICE = small_voice(config.VOICE, tmp_path_factory.mktemp("sizes"))
    yield {name: importlib.import_module(name) for name in MODULES}
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(RECIPE)):
            del sys.modules[name]
