"""Configuration values that the reference implementation reads from incomplete files.

`.venv-oracle/bin/python -m tests.golden.config_truth SEED FILE` writes such files and their values as JSON.
"""

from __future__ import annotations

import inspect
import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from qwen_tts import Qwen3TTSModel
from qwen_tts.core.models.configuration_qwen3_tts import (
    Qwen3TTSConfig,
    Qwen3TTSSpeakerEncoderConfig,
    Qwen3TTSTalkerCodePredictorConfig,
    Qwen3TTSTalkerConfig,
)
from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import (
    Qwen3TTSTokenizerV2Config,
    Qwen3TTSTokenizerV2DecoderConfig,
)
from transformers import MimiConfig, PretrainedConfig

FILES_PER_KIND = 6  # Number of config files of each kind.
LEFT_OUT = 0.4  # Fraction of the fields that are omitted.
MODEL, TOKENIZER, GENERATION = "config.json", "speech_tokenizer/config.json", "generation_config.json"

Json = dict[str, Any]

# Configuration class of each section.
CLASSES: dict[str, type[PretrainedConfig]] = {
    "talker_config": Qwen3TTSTalkerConfig,
    "code_predictor_config": Qwen3TTSTalkerCodePredictorConfig,
    "speaker_encoder_config": Qwen3TTSSpeakerEncoderConfig,
    "decoder_config": Qwen3TTSTokenizerV2DecoderConfig,
    "encoder_config": MimiConfig,
}
# Fields that these classes read although their constructors have no parameter for them.
UNNAMED: Json = {
    "talker_config": {"head_dim": 24},
    "decoder_config": {"head_dim": 24},
}
CHOSEN: Json = {
    # These values are valid together with defaults of other fields.
    **{"num_attention_heads": 32, "num_key_value_heads": 4, "num_code_groups": 32, "num_semantic_quantizers": 2},
    "spk_id": {"zoe": 3},
    "spk_is_dialect": {"zoe": False},
    "codec_language_id": {"english": 2},
    "upsampling_ratios": [3, 2],
    "head_dim": 40,
    # Fields that the runtime refuses, or that the classes derive from other fields, have their default values.
    **dict.fromkeys(("rope_scaling", "layer_types", "code_predictor_config", "frame_rate"), None),
    **dict.fromkeys(("use_sliding_window", "tie_word_embeddings", "use_conv_shortcut"), False),
    "hidden_act": None,
    "use_causal_conv": True,
}
KEPT = {  # Required fields: the classes have no default, or a default that is inconsistent with the other fields.
    "talker_config": {"vocab_size": 6000, "text_vocab_size": 152_000},
    "decoder_config": {"codebook_dim": 512},
    "": {"tts_model_type": "voice_design"},
}
SETTINGS = (
    *("do_sample", "temperature", "top_k", "top_p", "repetition_penalty"),
    *("subtalker_dosample", "subtalker_temperature", "subtalker_top_k", "subtalker_top_p"),
)


def config_truth(seed: int) -> list[Json]:
    """Return config files with missing fields, and the values that the reference loads."""
    stream = np.random.RandomState(seed)
    cases = [_case(stream, 0.0), _case(stream, 1.0)]
    cases += [_case(stream, LEFT_OUT) for _ in range(FILES_PER_KIND)]
    return cases + [
        _saved(stream, case, as_difference=as_difference) for case in cases[1:3] for as_difference in (True, False)
    ]


def known_fields() -> list[str]:
    """Return the names of all fields that the reference's configuration classes read."""
    known = set(PretrainedConfig().to_dict())
    for kind in (*CLASSES.values(), Qwen3TTSConfig, Qwen3TTSTokenizerV2Config):
        known |= set(_signature(kind))
    return sorted(known | {name for fields in (*UNNAMED.values(), *KEPT.values()) for name in fields})


def _signature(kind: type) -> Json:
    parameters = inspect.signature(kind.__init__).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not inspect.Parameter.empty
    }


def _case(stream: np.random.RandomState, left_out: float) -> Json:
    def thinned(fields: Json) -> Json:
        return {name: value for name, value in fields.items() if stream.random_sample() >= left_out}

    def section(name: str) -> Json:
        drawn = {field: _drawn(stream, field, default) for field, default in _signature(CLASSES[name]).items()}
        drawn |= UNNAMED.get(name, {})
        return thinned({field: value for field, value in drawn.items() if value is not None}) | KEPT.get(name, {})

    predictor = thinned({"code_predictor_config": section("code_predictor_config")})
    top = thinned(
        {
            "speaker_encoder_config": section("speaker_encoder_config"),
            **{name: int(stream.randint(100_000)) for name in _signature(Qwen3TTSConfig) if name.endswith("token_id")},
        }
    )
    tokenizer = thinned(
        {
            "encoder_config": section("encoder_config"),
            **{name: int(stream.randint(100_000)) for name in _signature(Qwen3TTSTokenizerV2Config) if "rate" in name},
            "encoder_valid_num_quantizers": 12,
        }
    )
    generation = thinned({name: _drawn(stream, name, default) for name, default in _settings({}).items()})
    files = {
        MODEL: {"model_type": "qwen3_tts", **KEPT[""], **top, "talker_config": section("talker_config") | predictor},
        TOKENIZER: {
            "model_type": "qwen3_tts_tokenizer_12hz",
            "decoder_config": section("decoder_config"),
            **tokenizer,
        },
        GENERATION: generation,
    }
    return {"files": files, "values": _values(files)}


def _saved(stream: np.random.RandomState, case: Json, *, as_difference: bool) -> Json:
    """Return the config files of a case as the configuration classes save them.

    Some fields that have default values are missing.

    Args: as_difference: True to save only values that differ from the defaults, like ``save_pretrained``.
    """

    def thinned(section: Json, kind: type) -> Json:
        defaults = json.loads(json.dumps(_signature(kind)))
        if kind is Qwen3TTSSpeakerEncoderConfig:  # This class does not accept all fields that it saves.
            section = {name: value for name, value in section.items() if name in defaults}
        return {
            name: thinned(value, CLASSES[name]) if name in CLASSES and value else value
            for name, value in section.items()
            if name not in defaults or value != defaults[name] or stream.random_sample() >= LEFT_OUT
        }

    model, tokenizer = _loaded(case["files"])
    files = {GENERATION: case["files"][GENERATION]}
    for name, config in ((MODEL, model), (TOKENIZER, tokenizer)):
        files[name] = thinned(json.loads(config.to_json_string(use_diff=as_difference)), type(config))
    values = _values(files)
    assert json.dumps(values) == json.dumps(case["values"]), "what the classes save they load to the same"
    return {"files": files, "values": values}


def _drawn(stream: np.random.RandomState, name: str, default: Any) -> Any:
    """Return a random value with the type of a field's default, but another value."""
    if name in CHOSEN:
        return CHOSEN[name]
    if isinstance(default, bool):
        return not default
    if isinstance(default, int):
        return int(default + stream.randint(1, 99))
    if isinstance(default, float):
        return round(float(default * stream.uniform(1.1, 3.0)), 9)
    if isinstance(default, list | tuple):
        return [parameter + int(stream.randint(1, 9)) for parameter in default]
    return default


def _loaded(files: dict[str, Json]) -> tuple[Qwen3TTSConfig, Qwen3TTSTokenizerV2Config]:
    """Return the configuration objects that the classes load from these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name in (MODEL, TOKENIZER):
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(files[name]))
        tokenizer = Qwen3TTSTokenizerV2Config.from_pretrained(Path(folder) / "speech_tokenizer")
        return Qwen3TTSConfig.from_pretrained(folder), tokenizer


def _values(files: dict[str, Json]) -> Json:
    """Return the loaded values of all fields, keyed by section.

    Fields that a class does not have are omitted.
    """
    model, tokenizer = _loaded(files)
    sections = {
        "": model,
        "talker_config": model.talker_config,
        "code_predictor_config": model.talker_config.code_predictor_config,
        "speaker_encoder_config": model.speaker_encoder_config,
        "speech_tokenizer": tokenizer,
        "decoder_config": tokenizer.decoder_config,
        "encoder_config": tokenizer.encoder_config,
    }
    values = {}
    for name, config in sections.items():
        wanted = {*_signature(type(config)), *UNNAMED.get(name, ()), *KEPT.get(name, ())}
        own = {field: getattr(config, field) for field in sorted(wanted) if hasattr(config, field)}
        if "num_attention_heads" in own:  # The attention layers of these classes compute this default.
            own["head_dim"] = getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
        values[name] = {field: value for field, value in own.items() if not isinstance(value, PretrainedConfig)}
    return values | {"generation_config": _settings(files[GENERATION])}


def _settings(given: Json) -> Json:
    merged = Qwen3TTSModel._merge_generate_kwargs(SimpleNamespace(generate_defaults=given))
    return {name: merged[name] for name in SETTINGS}


if __name__ == "__main__":
    truth = {"cases": config_truth(int(sys.argv[1])), "known": known_fields()}
    Path(sys.argv[2]).write_text(json.dumps(truth, indent=1) + "\n")
