"""Configurations, tensor names and shapes of the five published checkpoints."""

from __future__ import annotations

import gzip
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from runtime.model.checkpoints.config_files import read_speech_tokenizer_config
from runtime.model.config import SpeechTokenizerConfig
from tests.support.checkpoints import GENERATION

DATA = Path(__file__).parent / "data"
VARIANTS = {
    "0.6B-Base": ("0b6", "base"),
    "0.6B-CustomVoice": ("0b6", "custom_voice"),
    "1.7B-Base": ("1b7", "base"),
    "1.7B-CustomVoice": ("1b7", "custom_voice"),
    "1.7B-VoiceDesign": ("1b7", "voice_design"),
}
DIALECTS = ("beijing_dialect", "sichuan_dialect")


def model_config(variant: str) -> dict[str, Any]:
    """Return the content of the file config.json of a published checkpoint."""
    size, mode = VARIANTS[variant]
    config = json.loads((DATA / "config_0.6b_customvoice.json").read_text(encoding="utf-8"))
    config |= {"tts_model_size": size, "tts_model_type": mode}
    talker = config["talker_config"]
    if size == "1b7":
        talker |= {"hidden_size": 2048, "intermediate_size": 6144}
        talker.pop("pad_token_id", None)
    if mode != "custom_voice":
        talker |= {"spk_id": {}, "spk_is_dialect": {}}
        for dialect in DIALECTS:
            del talker["codec_language_id"][dialect]
    if mode == "base":
        config["speaker_encoder_config"] = {"enc_dim": talker["hidden_size"], "sample_rate": 24_000}
    return config


def write_configs(folder: Path, variant: str) -> None:
    """Write the JSON configuration files of a published checkpoint."""
    (folder / "config.json").write_text(json.dumps(model_config(variant)), encoding="utf-8")
    (folder / "generation_config.json").write_text(json.dumps(GENERATION), encoding="utf-8")


@cache
def speech_tokenizer_config() -> SpeechTokenizerConfig:
    """Return the parsed speech_tokenizer/config.json of all published checkpoints."""
    with tempfile.TemporaryDirectory() as folder:
        text = (DATA / "config_speech_tokenizer.json").read_text(encoding="utf-8")
        (Path(folder) / "config.json").write_text(text, encoding="utf-8")
        return read_speech_tokenizer_config(Path(folder))


@cache
def keys(name: str) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor in a published file, keyed by name.

    The list was created with the classes of the reference implementation.
    """
    with gzip.open(DATA / f"keys_{name}.txt.gz", "rt", encoding="utf-8") as lines:
        rows = (line.split() for line in lines)
        return {key: tuple(int(size) for size in shape.split(",")) for key, shape in rows}
