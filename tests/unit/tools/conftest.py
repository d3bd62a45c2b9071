"""Fixtures for the training recipe of the embedded voice, with small sizes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

RECIPE = Path(__file__).parents[3] / "tools" / "demo_voice"
MODULES = ("checkpoints", "codec_model", "config", "export", "kokoro_model", "phonemes", "pitch", "prompts", "restore",
           "speak", "store", "text", "train_codec", "train_lm", "vocabulary")  # fmt: skip
SMALL = {
    "lm": {"hidden": 64, "layers": 2, "heads": 2, "kv_heads": 1, "ffn": 96, "predictor_layers": 1, "predictor_ffn": 64,
           "text_dim": 64, "speaker_channels": 32},
    "codec": {"codebook_size": 512, "vq_dim": 16, "encoder_filters": 4, "encoder_hidden": 32, "encoder_heads": 2,
              "encoder_ffn": 64, "latent_dim": 32, "decoder_hidden": 32, "decoder_heads": 2, "decoder_ffn": 64,
              "decoder_dim": 32},
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
