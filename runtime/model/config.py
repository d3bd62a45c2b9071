"""A checkpoint's JSON files as typed values: an allow-list of fields, each required by name, nothing executed.

The class defaults of the reference implementation differ from every published checkpoint (facts 1.2), so a missing
field is an error that names it. The one exception is the speaker encoder, of which the published files give two
fields only; its other widths are constants of the architecture and stand here.
"""

from __future__ import annotations

import json
import types
from dataclasses import MISSING, dataclass, field, fields
from math import prod
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from runtime.errors import CheckpointInvalid, CheckpointMissing
from runtime.request import Layout, Mode

RESERVED_IDS = 1024  # last rows of codec_embedding: no codes, banned but for the end token (facts 4)

Section = TypeVar("Section")
Word = TypeVar("Word", Mode, Layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """What the talker's and the code predictor's layers have in common."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    num_code_groups: int
    rope_theta: float
    rms_norm_eps: float
    hidden_act: str
    attention_bias: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkerConfig(DecoderConfig):
    """``talker_config`` (facts 1.2). Codec ids are rows of ``codec_embedding``."""

    text_vocab_size: int
    text_hidden_size: int
    max_position_embeddings: int
    codec_pad_id: int
    codec_bos_id: int
    codec_eos_token_id: int
    codec_think_id: int
    codec_nothink_id: int
    codec_think_bos_id: int
    codec_think_eos_id: int
    codec_language_id: dict[str, int] = field(default_factory=dict)
    spk_id: dict[str, int] = field(default_factory=dict)  # null or {} where there are no speakers
    spk_is_dialect: dict[str, str | bool] = field(default_factory=dict)

    @property
    def codes(self) -> int:
        """How many ids are codes c0."""
        return self.vocab_size - RESERVED_IDS


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerEncoderConfig:
    """``speaker_encoder_config``, Base only (facts 1.2, 2.3)."""

    enc_dim: int
    sample_rate: int
    mel_dim: int = 128
    enc_channels: tuple[int, ...] = (512, 512, 512, 512, 1536)
    enc_kernel_sizes: tuple[int, ...] = (5, 3, 3, 3, 1)
    enc_dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    enc_attention_channels: int = 128
    enc_res2net_scale: int = 8
    enc_se_channels: int = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationDefaults:
    """``generation_config.json``: what a request gets where it says nothing (facts 4 has these last resorts)."""

    do_sample: bool = True
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05
    subtalker_dosample: bool = True
    subtalker_temperature: float = 0.9
    subtalker_top_k: int = 50
    subtalker_top_p: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """``config.json`` of one checkpoint.

    ``voicewright_modes``, ``voicewright_layouts`` and ``voicewright_speaks`` are our documented extension for
    checkpoints that serve several modes, one text layout, or are random (docs/checkpoints.md).
    """

    talker: TalkerConfig
    predictor: DecoderConfig
    speaker_encoder: SpeakerEncoderConfig | None
    generation: GenerationDefaults
    modes: tuple[Mode, ...]
    layouts: tuple[Layout, ...]
    speaks: bool
    takes_instruct: bool
    im_start_token_id: int
    tts_pad_token_id: int
    tts_bos_token_id: int
    tts_eos_token_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Code2WavConfig:
    """``decoder_config`` of the speech tokenizer (facts 1.3)."""

    codebook_size: int
    codebook_dim: int
    num_quantizers: int
    latent_dim: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    sliding_window: int
    rope_theta: float
    rms_norm_eps: float
    hidden_act: str
    attention_bias: bool
    decoder_dim: int
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]

    @property
    def samples_per_frame(self) -> int:
        return prod((*self.upsample_rates, *self.upsampling_ratios))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechEncoderConfig:
    """``encoder_config`` of the speech tokenizer, Mimi's fields (facts 1.3)."""

    audio_channels: int
    num_filters: int
    kernel_size: int
    last_kernel_size: int
    residual_kernel_size: int
    num_residual_layers: int
    dilation_growth_rate: int
    compress: int
    upsampling_ratios: tuple[int, ...]
    pad_mode: str
    use_causal_conv: bool
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    hidden_act: str
    norm_eps: float
    rope_theta: float
    codebook_size: int
    codebook_dim: int
    num_quantizers: int
    num_semantic_quantizers: int
    vector_quantization_hidden_dimension: int = 0  # 0: as codebook_dim
    attention_bias: bool = False

    @property
    def quantizer_width(self) -> int:
        return self.vector_quantization_hidden_dimension or self.codebook_dim

    @property
    def seanet_stride(self) -> int:
        """Samples to one latent before the last downsampling."""
        return prod(self.upsampling_ratios)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechTokenizerConfig:
    """``speech_tokenizer/config.json``."""

    code2wav: Code2WavConfig
    encoder: SpeechEncoderConfig
    encoder_valid_num_quantizers: int
    input_sample_rate: int
    output_sample_rate: int
    encode_downsample_rate: int


def read_model_config(folder: Path) -> ModelConfig:
    """Read config.json and generation_config.json of a checkpoint folder.

    Raises:
        CheckpointMissing: a file is not there.
        CheckpointInvalid: a field is missing, has another type, or asks for something that is not supported.
    """
    path = folder / "config.json"
    top = read_json(path)
    _require(top.get("model_type") == "qwen3_tts", path, "model_type is not qwen3_tts")
    talker_json = _section(top, "talker_config", path)
    talker = parse(TalkerConfig, talker_json, path, "talker_config")
    predictor = parse(
        DecoderConfig,
        _section(talker_json, "code_predictor_config", path),
        path,
        "talker_config.code_predictor_config",
    )
    for name, part, raw in (
        ("talker_config", talker, talker_json),
        ("code_predictor_config", predictor, talker_json["code_predictor_config"]),
    ):
        _require(part.hidden_act == "silu", path, f"{name}.hidden_act must be silu")
        _require(not raw.get("use_sliding_window"), path, f"{name}.use_sliding_window is not supported")
        scaling = raw.get("rope_scaling") or {}
        _require(isinstance(scaling, dict), path, f"{name}.rope_scaling is not an object")
        rope_type = scaling.get("rope_type", "default")
        _require(rope_type == "default", path, f"{name}.rope_scaling of type {rope_type} is not supported")
        heads, groups = part.num_attention_heads, part.num_key_value_heads
        _require(heads % groups == 0, path, f"{name}.num_key_value_heads must divide num_attention_heads")
    _require(
        talker.num_code_groups == predictor.num_code_groups,
        path,
        "talker_config and code_predictor_config disagree on num_code_groups",
    )

    modes = _modes(top, path)
    speaker_encoder = None
    if Mode.BASE in modes:
        speaker_json = _section(top, "speaker_encoder_config", path)
        speaker_encoder = parse(SpeakerEncoderConfig, speaker_json, path, "speaker_encoder_config")
        _require(
            speaker_encoder.enc_dim == talker.hidden_size,
            path,
            "speaker_encoder_config.enc_dim must equal talker_config.hidden_size",
        )
    if Mode.CUSTOM_VOICE in modes:
        _require(bool(talker.spk_id), path, "talker_config.spk_id names no speaker")

    _check_ids(talker, path)

    def token(name: str) -> int:
        index = _integer(top, name, path)
        _require(0 <= index < talker.text_vocab_size, path, f"{name} is {index}, which text_embedding does not have")
        return index

    return ModelConfig(
        talker=talker,
        predictor=predictor,
        speaker_encoder=speaker_encoder,
        generation=_generation(folder),
        modes=modes,
        layouts=_words(Layout, top.get("voicewright_layouts", list(Layout)), path, "voicewright_layouts"),
        speaks=bool(top.get("voicewright_speaks", True)),
        # The reference drops instruct for the 0.6B CustomVoice model (facts 3.2).
        takes_instruct=top.get("tts_model_size") != "0b6",
        im_start_token_id=token("im_start_token_id"),
        tts_pad_token_id=token("tts_pad_token_id"),
        tts_bos_token_id=token("tts_bos_token_id"),
        tts_eos_token_id=token("tts_eos_token_id"),
    )


def read_speech_tokenizer_config(folder: Path) -> SpeechTokenizerConfig:
    """Read speech_tokenizer/config.json.

    Raises:
        CheckpointMissing: the file is not there.
        CheckpointInvalid: a field is missing, has another type, or is not supported.
    """
    path = folder / "config.json"
    top = read_json(path)
    code2wav = parse(Code2WavConfig, _section(top, "decoder_config", path), path, "decoder_config")
    _require(code2wav.hidden_act == "silu", path, "decoder_config.hidden_act must be silu")
    encoder = parse(SpeechEncoderConfig, _section(top, "encoder_config", path), path, "encoder_config")
    _require(encoder.use_causal_conv, path, "encoder_config.use_causal_conv must be true")
    _require(encoder.hidden_act == "gelu", path, "encoder_config.hidden_act must be gelu")
    return SpeechTokenizerConfig(
        code2wav=code2wav,
        encoder=encoder,
        encoder_valid_num_quantizers=_integer(top, "encoder_valid_num_quantizers", path),
        input_sample_rate=_integer(top, "input_sample_rate", path),
        output_sample_rate=_integer(top, "output_sample_rate", path),
        encode_downsample_rate=_integer(top, "encode_downsample_rate", path),
    )


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        CheckpointMissing: no such file.
        CheckpointInvalid: not a JSON object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointMissing(
            path=path.parent, what=path.name, hint="A checkpoint folder holds it in the published layout."
        ) from None
    except OSError as error:
        raise CheckpointInvalid(path=path, why=f"it cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointInvalid(path=path, why=f"it is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise CheckpointInvalid(path=path, why="it is not a JSON object")
    return value


def parse(kind: type[Section], raw: dict[str, Any], path: Path, where: str) -> Section:
    """Pick the fields of a dataclass out of a JSON object, by name and type; the rest is ignored.

    Raises:
        CheckpointInvalid: a field without default is missing or a value has another type.
    """
    hints = get_type_hints(kind)
    values = {}
    for spec in fields(kind):  # type: ignore[arg-type]
        has_default = spec.default is not MISSING or spec.default_factory is not MISSING
        if has_default and raw.get(spec.name) is None:
            continue
        values[spec.name] = _typed(_field(raw, spec.name, path, where), hints[spec.name], path, f"{where}.{spec.name}")
    return kind(**values)


def _check_ids(talker: TalkerConfig, path: Path) -> None:
    """Every id that a prompt may hold must have its row: on a card, a read past a table ends the process."""
    special = {spec.name: getattr(talker, spec.name) for spec in fields(talker) if spec.name.startswith("codec_")}
    del special["codec_language_id"]
    for name, index in {**special, **talker.codec_language_id, **talker.spk_id}.items():
        _require(0 <= index < talker.vocab_size, path, f"{name} is {index}, which codec_embedding does not have")
    for speaker, dialect in talker.spk_is_dialect.items():
        known = isinstance(dialect, bool) or dialect in talker.codec_language_id
        _require(known, path, f"the dialect of {speaker} is not in codec_language_id")


def _generation(folder: Path) -> GenerationDefaults:
    path = folder / "generation_config.json"
    return parse(GenerationDefaults, read_json(path), path, "generation_config")


def _modes(top: dict[str, Any], path: Path) -> tuple[Mode, ...]:
    if top.get("voicewright_modes"):
        return _words(Mode, top["voicewright_modes"], path, "voicewright_modes")
    return _words(Mode, [_field(top, "tts_model_type", path, "")], path, "tts_model_type")


def _words(kind: type[Word], words: Any, path: Path, where: str) -> tuple[Word, ...]:
    known = set(kind)
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word in known for word in words):
        raise CheckpointInvalid(path=path, why=f"{where} is not of {', '.join(kind)}")
    return tuple(kind(word) for word in words)


def _integer(raw: dict[str, Any], name: str, path: Path) -> int:
    return int(_typed(_field(raw, name, path, ""), int, path, name))


def _section(raw: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    value = _field(raw, name, path, "")
    _require(isinstance(value, dict), path, f"{name} is not an object")
    section = dict(value)
    width, heads = section.get("hidden_size"), section.get("num_attention_heads")
    if section.get("head_dim") is None and isinstance(width, int) and isinstance(heads, int) and heads > 0:
        section["head_dim"] = width // heads  # a rule of the architecture, not a default
    return section


def _field(raw: dict[str, Any], name: str, path: Path, where: str) -> Any:
    if raw.get(name) is None:
        raise CheckpointInvalid(path=path, why=f"{where + '.' if where else ''}{name} is missing")
    return raw[name]


def _typed(value: Any, hint: Any, path: Path, where: str) -> Any:
    origin = get_origin(hint)
    if origin is tuple:
        _require(isinstance(value, list), path, f"{where} is not a list")
        return tuple(_typed(item, get_args(hint)[0], path, where) for item in value)
    if origin is dict:
        _require(isinstance(value, dict), path, f"{where} is not an object")
        return {key: _typed(item, get_args(hint)[1], path, f"{where}.{key}") for key, item in value.items()}
    if origin in (Union, types.UnionType):
        _require(isinstance(value, get_args(hint)), path, f"{where} has another type")
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    _require(type(value) is hint, path, f"{where} is not a {hint.__name__}")
    return value


def _require(condition: bool, path: Path, why: str) -> None:
    if not condition:
        raise CheckpointInvalid(path=path, why=why)
