"""Tests for configuration files with missing, mistyped and unsupported fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import CheckpointInvalid, CheckpointMissing, CheckpointUnsupported
from runtime.model.checkpoints.config_files import read_model_config, read_speech_tokenizer_config
from runtime.model.config import Code2WavConfig, DecoderConfig, SpeakerEncoderConfig, SpeechEncoderConfig, TalkerConfig
from runtime.request import Layout, Mode
from tests.conftest import FolderOf
from tests.unit.model.published import DATA, VARIANTS, speech_tokenizer_config, write_configs

Change = Callable[[dict[str, Any]], object]


def changed(source: Path, folder: Path, file: str, change: Change) -> Path:
    """Copy a checkpoint's JSON files to a folder, change one of them, and return the folder."""
    for name in ("config.json", "generation_config.json", "speech_tokenizer/config.json"):
        content = json.loads((source / name).read_text(encoding="utf-8"))
        if name == file:
            change(content)
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def read(folder: Path, file: str) -> None:
    if file.startswith("speech_tokenizer"):
        read_speech_tokenizer_config(folder / "speech_tokenizer")
    else:
        read_model_config(folder)


def forget(*path: str) -> Change:
    def change(content: dict[str, Any]) -> None:
        for name in path[:-1]:
            content = content[name]
        del content[path[-1]]

    return change


def put(value: Any, *path: str) -> Change:
    def change(content: dict[str, Any]) -> None:
        for name in path[:-1]:
            content = content[name]
        content[path[-1]] = value

    return change


MODEL, GENERATION, TOKENIZER = "config.json", "generation_config.json", "speech_tokenizer/config.json"
PREDICTOR = ("talker_config", "code_predictor_config")


@pytest.mark.parametrize(
    ("file", "path"),
    [
        (MODEL, ("tts_model_type",)),
        (MODEL, ("talker_config", "text_vocab_size")),
        (TOKENIZER, ("decoder_config", "codebook_dim")),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else "",
)
def test_missing_required_field_error_contains_its_name(
    folder_of: FolderOf, tmp_path: Path, file: str, path: tuple[str, ...]
) -> None:
    folder = changed(folder_of("tiny", "base"), tmp_path, file, forget(*path))
    with pytest.raises(CheckpointInvalid, match=rf"{path[-1]} is missing"):
        read(folder, file)


@pytest.mark.parametrize("given", [7, 7.0, [7], [7.0], [[7]]], ids=str)
def test_speaker_id_is_accepted_in_the_form_of_the_official_package(
    folder_of: FolderOf, tmp_path: Path, given: object
) -> None:
    folder = changed(
        folder_of("tiny", "custom_voice"), tmp_path, MODEL, put({"anna": given}, "talker_config", "spk_id")
    )
    assert read_model_config(folder).talker.spk_id == {"anna": 7}


@pytest.mark.parametrize("given", [[7, 8], [], 7.5, "7"], ids=str)
def test_invalid_speaker_id_is_refused(folder_of: FolderOf, tmp_path: Path, given: object) -> None:
    folder = changed(
        folder_of("tiny", "custom_voice"), tmp_path, MODEL, put({"anna": given}, "talker_config", "spk_id")
    )
    with pytest.raises(CheckpointInvalid, match=r"spk_id\.anna is not a int"):
        read_model_config(folder)


@pytest.mark.parametrize("path", [("tts_pad_token_id",), ("talker_config", "codec_bos_id")], ids=".".join)
def test_integral_float_is_accepted_as_token_id(folder_of: FolderOf, tmp_path: Path, path: tuple[str, ...]) -> None:
    source = folder_of("tiny", "base")
    value = json.loads((source / MODEL).read_text())
    for name in path:
        value = value[name]
    folder = changed(source, tmp_path, MODEL, put(float(value), *path))
    assert read_model_config(folder) == read_model_config(source)


def test_config_file_with_a_byte_order_mark_is_accepted(folder_of: FolderOf, tmp_path: Path) -> None:
    source = folder_of("tiny", "base")
    folder = changed(source, tmp_path, MODEL, lambda _: None)
    for path in folder.rglob("*.json"):
        path.write_text(path.read_text("utf-8"), "utf-8-sig")
    assert read_model_config(folder) == read_model_config(source)
    read_speech_tokenizer_config(folder / "speech_tokenizer")


@pytest.mark.parametrize(
    ("file", "value", "path", "words"),
    [
        (MODEL, "64", ("talker_config", "hidden_size"), "talker_config.hidden_size is not a int"),
        (MODEL, True, ("talker_config", "num_hidden_layers"), "num_hidden_layers is not a int"),
        (MODEL, [1], ("talker_config",), "talker_config is not an object"),
        (MODEL, ["serena"], ("talker_config", "spk_id"), "spk_id is not an object"),
        (MODEL, {"serena": "x"}, ("talker_config", "spk_id"), "spk_id.serena is not a int"),
        (MODEL, {"eric": 3}, ("talker_config", "spk_is_dialect"), "spk_is_dialect.eric has another type"),
        (MODEL, "many", ("tts_pad_token_id",), "tts_pad_token_id is not a int"),
        (MODEL, 1.5, ("im_start_token_id",), "im_start_token_id is not a int"),
        (MODEL, {}, ("talker_config", "spk_id"), "names no speaker"),
        (MODEL, {"serena": 1088}, ("talker_config", "spk_id"), "serena is 1088, which codec_embedding does not have"),
        (MODEL, {"welsh": -1}, ("talker_config", "codec_language_id"), "welsh is -1, which codec_embedding"),
        (MODEL, 5000, ("talker_config", "codec_bos_id"), "codec_bos_id is 5000, which codec_embedding"),
        (MODEL, 5000, ("tts_pad_token_id",), "tts_pad_token_id is 5000, which text_embedding does not have"),
        (MODEL, "gelu", ("talker_config", "hidden_act"), "hidden_act must be silu"),
        (MODEL, True, (*PREDICTOR, "use_sliding_window"), "use_sliding_window is not supported"),
        (MODEL, {"rope_type": "yarn"}, ("talker_config", "rope_scaling"), "of type yarn is not supported"),
        (MODEL, "yarn", ("talker_config", "rope_scaling"), "rope_scaling is not an object"),
        (
            MODEL,
            {"type": "linear", "factor": 2.0},
            ("talker_config", "rope_scaling"),
            "of type linear is not supported",
        ),
        (MODEL, {"rope_type": "yarn"}, (*PREDICTOR, "rope_parameters"), "of type yarn is not supported"),
        (MODEL, {"full_attention": {}}, (*PREDICTOR, "rope_parameters"), "by kind of layer"),
        (
            MODEL,
            {"mrope_section": [4, 2, 1]},
            ("talker_config", "rope_scaling"),
            "mrope_section must add up to half of",
        ),
        (MODEL, {"mrope_section": ["a"]}, ("talker_config", "rope_parameters"), "mrope_section must add up to half of"),
        (MODEL, 0.5, ("talker_config", "partial_rotary_factor"), "partial_rotary_factor must be 1"),
        (MODEL, ["full_attention", "sliding_attention"], (*PREDICTOR, "layer_types"), "layer_types other than"),
        (MODEL, True, ("talker_config", "tie_word_embeddings"), "tie_word_embeddings is not supported"),
        (MODEL, 3, ("talker_config", "num_key_value_heads"), "must divide num_attention_heads"),
        (MODEL, 15, ("talker_config", "num_code_groups"), "disagree on num_code_groups"),
        (MODEL, ["sideways"], ("voicewright_layouts",), "voicewright_layouts is not of"),
        (MODEL, [], ("voicewright_layouts",), "voicewright_layouts is not of"),
        (MODEL, 5, ("voicewright_modes",), "voicewright_modes is not of"),
        (MODEL, "latin", ("voicewright_alphabet",), "voicewright_alphabet is not of ascii"),
        (MODEL, ["ascii"], ("voicewright_alphabet",), "voicewright_alphabet is not of ascii"),
        (MODEL, None, ("talker_config", "spk_id"), "names no speaker"),
        (GENERATION, "0.9", ("temperature",), "temperature is not a float"),
        (GENERATION, 1, ("do_sample",), "do_sample is not a bool"),
        (TOKENIZER, "gelu", ("decoder_config", "hidden_act"), "hidden_act must be silu"),
        (TOKENIZER, False, ("encoder_config", "use_causal_conv"), "use_causal_conv must be true"),
        (TOKENIZER, "relu", ("encoder_config", "hidden_act"), "hidden_act must be gelu"),
        (TOKENIZER, True, ("encoder_config", "use_conv_shortcut"), "use_conv_shortcut must be false"),
        (TOKENIZER, {"rope_type": "yarn"}, ("decoder_config", "rope_scaling"), "of type yarn is not supported"),
        (TOKENIZER, {"rope_type": "yarn"}, ("encoder_config", "rope_scaling"), "of type yarn is not supported"),
        (TOKENIZER, 8, ("decoder_config", "upsample_rates"), "upsample_rates is not a list"),
        (TOKENIZER, "all", ("encoder_valid_num_quantizers",), "encoder_valid_num_quantizers is not a int"),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else None,
)
def test_error_about_an_invalid_config_value_contains_the_value(
    folder_of: FolderOf, tmp_path: Path, file: str, value: Any, path: tuple[str, ...], words: str
) -> None:
    folder = changed(folder_of("tiny", "custom_voice"), tmp_path, file, put(value, *path))
    with pytest.raises(CheckpointInvalid) as caught:
        read(folder, file)
    assert words in str(caught.value)
    assert file.split("/")[-1] in str(caught.value)


@pytest.mark.parametrize(
    ("file", "value", "path", "words"),
    [
        (MODEL, "qwen2", ("model_type",), "model_type is 'qwen2' and not of qwen3_tts"),
        (MODEL, ["qwen3_tts"], ("model_type",), r"model_type is \['qwen3_tts'\] and not of qwen3_tts"),
        (
            MODEL,
            "singing",
            ("tts_model_type",),
            "tts_model_type is 'singing' and not of custom_voice, voice_design, base",
        ),
        (MODEL, "qwen3_tts_tokenizer_25hz", ("tokenizer_type",), "and not of qwen3_tts_tokenizer_12hz"),
        (TOKENIZER, "qwen3_tts_tokenizer_25hz", ("model_type",), "and not of qwen3_tts_tokenizer_12hz"),
        (MODEL, {"quant_method": "bitsandbytes"}, ("quantization_config",), "quantized weights by bitsandbytes"),
        (MODEL, {"group_size": 64, "bits": 8}, ("quantization",), "declares quantized weights"),
        (TOKENIZER, {"quant_method": "fp8"}, ("quantization_config",), "quantized weights by fp8"),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else None,
)
def test_unsupported_model_type_is_refused(
    folder_of: FolderOf, tmp_path: Path, file: str, value: Any, path: tuple[str, ...], words: str
) -> None:
    folder = changed(folder_of("tiny", "custom_voice"), tmp_path, file, put(value, *path))
    with pytest.raises(CheckpointUnsupported, match=words):
        read(folder, file)


def test_dialect_missing_from_the_language_table_is_ignored(folder_of: FolderOf, tmp_path: Path) -> None:
    source = folder_of("tiny", "custom_voice")
    change = put({"eric": "welsh", "dylan": "beijing_dialect", "serena": False}, "talker_config", "spk_is_dialect")
    config = read_model_config(changed(source, tmp_path, MODEL, change))
    assert config.talker.spk_is_dialect == {"dylan": "beijing_dialect", "serena": False}
    assert "talker_config.spk_is_dialect.eric" in config.notes.describe()


def test_voicewright_fields_are_not_reported_as_unknown(folder_of: FolderOf, tmp_path: Path) -> None:
    change = put(80, "voicewright_part_chars")
    config = read_model_config(changed(folder_of("tiny", "custom_voice"), tmp_path, MODEL, change))
    assert (config.part_chars, config.notes.unknown) == (80, [])
    assert config.alphabet is None
    change = put("ascii", "voicewright_alphabet")
    config = read_model_config(changed(folder_of("tiny", "custom_voice"), tmp_path / "ascii", MODEL, change))
    assert (config.alphabet, config.notes.unknown) == ("ascii", [])


def test_speaker_encoder_of_another_width_is_refused(folder_of: FolderOf, tmp_path: Path) -> None:
    folder = changed(folder_of("tiny", "base"), tmp_path, MODEL, put(32, "speaker_encoder_config", "enc_dim"))
    with pytest.raises(CheckpointInvalid, match="enc_dim must equal"):
        read_model_config(folder)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "not JSON"),
        ("\udcff", "not JSON"),
    ],
    ids=["empty", "half", "list", "deep", "not_text"],
)
def test_config_file_without_a_json_object_is_reported(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "config.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(CheckpointInvalid, match=words):
        read_model_config(tmp_path)


def test_directory_instead_of_a_config_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    with pytest.raises(CheckpointInvalid, match="cannot be read"):
        read_model_config(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_error_about_a_missing_config_file_contains_its_name(folder_of: FolderOf, tmp_path: Path, name: str) -> None:
    folder = changed(folder_of("tiny", "custom_voice"), tmp_path, MODEL, lambda content: None)
    (folder / name).unlink()
    with pytest.raises(CheckpointMissing, match=name):
        read_model_config(folder)


def test_unknown_config_fields_are_ignored(folder_of: FolderOf, tmp_path: Path) -> None:
    source = folder_of("tiny", "custom_voice")
    change = put({"__reduce__": "os.system"}, "auto_map")
    assert read_model_config(changed(source, tmp_path, MODEL, change)) == read_model_config(source)


def test_voicewright_fields_extend_a_checkpoint(folder_of: FolderOf, tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        content["voicewright_modes"] = ["custom_voice", "voice_design"]
        content["voicewright_layouts"] = ["non_streaming", "streaming"]
        content["voicewright_speaks"] = False

    config = read_model_config(changed(folder_of("tiny", "custom_voice"), tmp_path, MODEL, change))
    assert config.modes == (Mode.CUSTOM_VOICE, Mode.VOICE_DESIGN)
    assert config.layouts == (Layout.NON_STREAMING, Layout.STREAMING)
    assert config.preferred_layout is Layout.NON_STREAMING
    assert read_model_config(folder_of("tiny", "custom_voice")).preferred_layout is None
    assert not config.speaks


@pytest.mark.parametrize("variant", VARIANTS)
def test_published_file_may_omit_fields_with_default_values(tmp_path: Path, variant: str) -> None:
    """Fields that are equal to their default are removed from the file."""
    whole, left_out = tmp_path / "whole", tmp_path / "left_out"
    for folder in (whole, left_out):
        folder.mkdir()
        write_configs(folder, variant)
    path = left_out / MODEL
    content = json.loads(path.read_text(encoding="utf-8"))
    talker, speaker = content["talker_config"], content.get("speaker_encoder_config", {})
    kinds = (TalkerConfig, talker), (DecoderConfig, talker["code_predictor_config"]), (SpeakerEncoderConfig, speaker)
    dropped = sum(forget_defaults(kind, section) for kind, section in kinds)
    assert dropped > 15
    path.write_text(json.dumps(content), encoding="utf-8")
    assert read_model_config(left_out) == read_model_config(whole)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_field_of_a_published_file_is_known(tmp_path: Path, variant: str) -> None:
    write_configs(tmp_path, variant)
    assert read_model_config(tmp_path).notes.unknown + speech_tokenizer_config().notes.unknown == []


def test_published_speech_tokenizer_may_omit_fields_with_default_values(tmp_path: Path) -> None:
    content = json.loads((DATA / "config_speech_tokenizer.json").read_text(encoding="utf-8"))
    kinds = (Code2WavConfig, content["decoder_config"]), (SpeechEncoderConfig, content["encoder_config"])
    assert sum(forget_defaults(kind, section) for kind, section in kinds) > 25
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    assert read_speech_tokenizer_config(tmp_path) == speech_tokenizer_config()


def forget_defaults(kind: type, section: dict[str, Any]) -> int:
    """Remove fields that are equal to their default, and return the number of removed fields."""
    defaults = {spec.name: spec.default for spec in fields(kind)}
    gone = [name for name, value in section.items() if name in defaults and defaults[name] in (value, _tuple(value))]
    for name in gone:
        del section[name]
    return len(gone)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def test_rope_settings_are_read_from_the_location_in_newer_files(folder_of: FolderOf, tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        for section in (content["talker_config"], content["talker_config"]["code_predictor_config"]):
            scaling, theta = section.pop("rope_scaling", None) or {}, section.pop("rope_theta")
            section["rope_parameters"] = {**scaling, "rope_type": "default", "rope_theta": theta}

    source = folder_of("tiny", "custom_voice")
    assert read_model_config(changed(source, tmp_path, MODEL, change)) == read_model_config(source)


def test_null_field_selects_the_default_of_the_reference_implementation(folder_of: FolderOf, tmp_path: Path) -> None:
    source = folder_of("tiny", "custom_voice")
    change = put(None, *PREDICTOR, "num_key_value_heads")
    predictor = read_model_config(changed(source, tmp_path, MODEL, change)).predictor
    assert predictor.num_key_value_heads == predictor.num_attention_heads
    change = put(None, "encoder_config", "codebook_dim")
    encoder = read_speech_tokenizer_config(changed(source, tmp_path, TOKENIZER, change) / "speech_tokenizer").encoder
    assert encoder.codebook_dim == encoder.hidden_size


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"sampling_rate": 16_000}, "sampling_rate must be 24000"),
        ({"feature_size": 2}, "feature_size must be 1"),
        ({"chunk_length_s": 1.0, "overlap": 0.01}, "chunk_length_s with overlap"),
    ],
)
def test_preprocessor_that_changes_the_reference_audio_is_refused(
    folder_of: FolderOf, tmp_path: Path, content: dict[str, Any], words: str
) -> None:
    folder = changed(folder_of("tiny", "base"), tmp_path, MODEL, lambda _: None) / "speech_tokenizer"
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps({"feature_size": 1, "sampling_rate": 24_000, "chunk_length_s": None, "overlap": None}))
    read_speech_tokenizer_config(folder)
    path.write_text(json.dumps(content))
    with pytest.raises(CheckpointInvalid, match=words):
        read_speech_tokenizer_config(folder)


def test_absent_and_null_config_fields_mean_the_same(folder_of: FolderOf, tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        talker = content["talker_config"]
        del talker["head_dim"], content["tts_model_size"]
        talker |= {"spk_id": None, "spk_is_dialect": None}

    source = folder_of("tiny", "voice_design")
    left_out, whole = read_model_config(changed(source, tmp_path, MODEL, change)), read_model_config(source)
    assert left_out == whole
    (tmp_path / GENERATION).write_text("{}")
    assert read_model_config(tmp_path).generation == whole.generation
