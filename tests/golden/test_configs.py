"""Tests for config files with missing fields, compared with the reference implementation."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from runtime.model.checkpoints.config_files import TOKENIZER_TOP, TOP, read_model_config, read_speech_tokenizer_config
from runtime.model.checkpoints.config_reader import UNUSED_FIELDS, FieldNotes, parse_section
from runtime.model.config import (
    Code2WavConfig,
    DecoderConfig,
    GenerationDefaults,
    SpeakerEncoderConfig,
    SpeechEncoderConfig,
    TalkerConfig,
)
from tests.golden.stored import DATA
from tests.golden.test_live_oracle import ORACLE, ROOT

Json = dict[str, Any]

STORED = json.loads((DATA / "configs.json").read_text(encoding="utf-8"))


def read(case: Json, folder: Path) -> Json:
    """Write the config files of a test case, and return the runtime's values by section."""
    for name, content in case["files"].items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    model, speech = read_model_config(folder), read_speech_tokenizer_config(folder / "speech_tokenizer")
    speaker_json = case["files"]["config.json"].get("speaker_encoder_config", {})
    speaker = parse_section(SpeakerEncoderConfig, speaker_json, folder, "speaker_encoder_config", FieldNotes())
    parts = {
        "talker_config": model.talker,
        "code_predictor_config": model.predictor,
        "speaker_encoder_config": speaker,
        "decoder_config": speech.code2wav,
        "encoder_config": speech.encoder,
        "generation_config": model.generation,
    }
    tokens = {name: getattr(model, name) for name in TOP if name.endswith("token_id")}
    rates = {name: getattr(speech, name) for name in TOKENIZER_TOP if hasattr(speech, name)}
    return {name: asdict(part) for name, part in parts.items()} | {"": tokens, "speech_tokenizer": rates}


def plain(value: Any) -> Any:
    """Return a list for a tuple, and any other value unchanged."""
    return list(value) if isinstance(value, tuple) else value


def check(case: Json, folder: Path) -> None:
    for section, ours in read(case, folder).items():
        theirs = case["values"][section]
        assert set(ours) <= set(theirs), section
        for name, value in ours.items():
            assert plain(value) == (theirs[name] if theirs[name] is not None else {}), f"{section}.{name}"


@pytest.mark.parametrize("case", STORED["cases"])
def test_missing_config_field_has_the_default_of_the_reference_implementation(tmp_path: Path, case: Json) -> None:
    check(case, tmp_path)


def test_every_config_field_of_the_reference_implementation_is_read_or_irrelevant() -> None:
    kinds = (TalkerConfig, DecoderConfig, SpeakerEncoderConfig, Code2WavConfig, SpeechEncoderConfig, GenerationDefaults)
    read_here = {name for kind in kinds for name in kind.__dataclass_fields__} | TOP | TOKENIZER_TOP
    assert set(STORED["known"]) - read_here - UNUSED_FIELDS == set()


@pytest.mark.oracle
@pytest.mark.skipif(not ORACLE.exists(), reason="no .venv-oracle; tests/golden/oracle_env.sh makes it")
def test_random_configurations_are_read_as_by_the_reference_implementation(tmp_path: Path) -> None:
    seed, file = int.from_bytes(os.urandom(3)), tmp_path / "truth.json"
    words = [str(ORACLE), "-m", "tests.golden.config_truth", str(seed), str(file)]
    subprocess.run(words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    print(f"seed {seed}")
    for number, case in enumerate(json.loads(file.read_text())["cases"]):
        folder = tmp_path / str(number)
        folder.mkdir()
        check(case, folder)
