"""Fixtures for the training recipe of the embedded voice, with small sizes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

RECIPE = Path(__file__).parents[3] / "tools" / "demo_voice"
MODULES = ("checkpoints", "codec_model", "config", "export", "kokoro_model", "phonemes", "pitch", "prompts",
           "speak", "store", "text", "train_codec", "train_lm", "vocabulary")  # fmt: skip
LAYERS = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 64}
CODEC_LAYERS = {**LAYERS, "hidden_size": 32, "num_key_value_heads": 2, "head_dim": 16}
SMALL = {
    "talker": {**LAYERS, "num_hidden_layers": 2, "intermediate_size": 96, "text_hidden_size": 64},
    "code_predictor": {**LAYERS, "num_hidden_layers": 1},
    "speaker_encoder": {"enc_dim": 64, "enc_channels": [32, 32, 32, 32, 96], "enc_attention_channels": 8,
                        "enc_se_channels": 8},
    "codec": {"codebook_size": 512},
    "encoder": {**CODEC_LAYERS, "num_filters": 4, "codebook_dim": 16, "vector_quantization_hidden_dimension": 16},
    "decoder": {**CODEC_LAYERS, "codebook_dim": 32, "latent_dim": 32, "decoder_dim": 32},
}  # fmt: skip


@pytest.fixture(scope="module")
def recipe() -> Iterator[dict[str, ModuleType]]:
    """Import the modules of the recipe, and yield them by name.

    After the tests, the modules and their folder are removed from `sys`.
    """
    before = set(sys.modules)
    path = list(sys.path)
    sys.path.insert(0, str(RECIPE))
    for part, values in SMALL.items():
        importlib.import_module("config").CONFIG[part].update(values)
    yield {name: importlib.import_module(name) for name in MODULES}
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(RECIPE)):
            del sys.modules[name]
