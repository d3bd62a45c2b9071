"""Reads a checkpoint's JSON files as typed values by an allow-list of fields; nothing in them is executed.

What a file leaves out has the default of the reference implementation's class (qwen-tts 0.1.1, whose Mimi is that of
transformers 4.57.3), so that every file that those classes load is read to the same values; tests/golden holds them
to it. Where they have no default the field is required by name. What cannot be served is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from math import prod
from pathlib import Path
from typing import Any, TypeVar

from runtime.errors import CheckpointInvalid
from runtime.model.config_reader import (
    Notes,
    names,
    parse,
    read_json,
    require,
    require_sections,
    required,
    rope_of,
    section_of,
    typed,
)
from runtime.request import SAMPLE_RATE, Layout, Mode

RESERVED_IDS = 1024  # last rows of codec_embedding: no codes, banned but for the end token (docs/model.md 4)

SPEECH_TOKENIZER = "qwen3_tts_tokenizer_12hz"

# Read by name, beside the sections.
TOP = names(
    """
    model_type tokenizer_type talker_config speaker_encoder_config tts_model_type tts_model_size im_start_token_id
    tts_pad_token_id tts_bos_token_id tts_eos_token_id voicewright_modes voicewright_layouts voicewright_speaks
    """
)
TOKENIZER_TOP = names(
    """
    model_type decoder_config encoder_config encoder_valid_num_quantizers input_sample_rate output_sample_rate
    encode_downsample_rate decode_upsample_rate
    """
)

Word = TypeVar("Word", Mode, Layout)
Decoder = TypeVar("Decoder", "DecoderConfig", "TalkerConfig")
Headed = TypeVar("Headed", "DecoderConfig", "TalkerConfig", "Code2WavConfig", "SpeechEncoderConfig")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """What the talker's and the code predictor's layers have in common; defaults are the code predictor's."""

    hidden_size: int = 1024
    intermediate_size: int = 3072
    num_hidden_layers: int = 5
    num_attention_heads: int = 16
    num_key_value_heads: int = 8
    head_dim: int = 128
    vocab_size: int = 2048
    num_code_groups: int = 32
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkerConfig(DecoderConfig):
    """``talker_config`` (docs/model.md 1.2). Codec ids are rows of ``codec_embedding``."""

    intermediate_size: int = 2048
    num_hidden_layers: int = 20
    num_key_value_heads: int = 2
    head_dim: int = 0  # 0: hidden_size // num_attention_heads
    vocab_size: int = 3072
    text_vocab_size: int
    text_hidden_size: int = 2048
    max_position_embeddings: int = 32_768
    codec_pad_id: int = 4196
    codec_bos_id: int = 4197
    codec_eos_token_id: int = 4198
    codec_think_id: int = 4202
    codec_nothink_id: int = 4203
    codec_think_bos_id: int = 4204
    codec_think_eos_id: int = 4205
    codec_language_id: dict[str, int] = field(default_factory=dict)
    spk_id: dict[str, int] = field(default_factory=dict)  # null or {} where there are no speakers
    spk_is_dialect: dict[str, str | bool] = field(default_factory=dict)

    @property
    def codes(self) -> int:
        """How many ids are codes c0."""
        return self.vocab_size - RESERVED_IDS


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerEncoderConfig:
    """``speaker_encoder_config``, Base only (docs/model.md 1.2, 2.3)."""

    enc_dim: int = 1024
    sample_rate: int = 24_000
    mel_dim: int = 128
    enc_channels: tuple[int, ...] = (512, 512, 512, 512, 1536)
    enc_kernel_sizes: tuple[int, ...] = (5, 3, 3, 3, 1)
    enc_dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    enc_attention_channels: int = 128
    enc_res2net_scale: int = 8
    enc_se_channels: int = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationDefaults:
    """``generation_config.json``: what a request gets that says nothing (docs/model.md 4 has these last resorts)."""

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

    ``voicewright_modes``, ``voicewright_layouts``, ``voicewright_speaks`` and ``voicewright_part_chars`` are our
    documented extension for checkpoints that serve several modes, one text layout, are random, or lose words of long
    texts (docs/checkpoints.md).
    """

    talker: TalkerConfig
    predictor: DecoderConfig
    speaker_encoder: SpeakerEncoderConfig | None
    generation: GenerationDefaults
    modes: tuple[Mode, ...]
    layouts: tuple[Layout, ...]
    speaks: bool
    part_chars: int | None  # characters that are spoken as one part; None: as the settings say
    takes_instruct: bool
    im_start_token_id: int
    tts_pad_token_id: int
    tts_bos_token_id: int
    tts_eos_token_id: int
    notes: Notes = field(default_factory=Notes, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Code2WavConfig:
    """``decoder_config`` of the speech tokenizer (docs/model.md 1.3)."""

    codebook_size: int = 2048
    codebook_dim: int
    num_quantizers: int = 16
    latent_dim: int = 1024
    hidden_size: int = 1024
    intermediate_size: int = 3072
    num_hidden_layers: int = 8
    num_attention_heads: int = 16
    num_key_value_heads: int = 16
    head_dim: int = 0  # 0: hidden_size // num_attention_heads
    sliding_window: int = 72
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    decoder_dim: int = 1536
    upsample_rates: tuple[int, ...] = (8, 5, 4, 3)
    upsampling_ratios: tuple[int, ...] = (2, 2)

    @property
    def samples_per_frame(self) -> int:
        return prod((*self.upsample_rates, *self.upsampling_ratios))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechEncoderConfig:
    """``encoder_config`` of the speech tokenizer, Mimi's fields (docs/model.md 1.3)."""

    audio_channels: int = 1
    num_filters: int = 64
    kernel_size: int = 7
    last_kernel_size: int = 3
    residual_kernel_size: int = 3
    num_residual_layers: int = 1
    dilation_growth_rate: int = 2
    compress: int = 2
    upsampling_ratios: tuple[int, ...] = (8, 6, 5, 4)
    pad_mode: str = "constant"
    use_causal_conv: bool = True
    use_conv_shortcut: bool = False
    hidden_size: int = 512
    intermediate_size: int = 2048
    num_hidden_layers: int = 8
    num_attention_heads: int = 8
    num_key_value_heads: int = 8
    head_dim: int = 0  # 0: hidden_size // num_attention_heads
    hidden_act: str = "gelu"
    norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    codebook_size: int = 2048
    codebook_dim: int = 256
    num_quantizers: int = 32
    num_semantic_quantizers: int = 1
    vector_quantization_hidden_dimension: int = 256
    attention_bias: bool = False

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
    decode_upsample_rate: int
    notes: Notes = field(default_factory=Notes, compare=False)


def read_model_config(folder: Path) -> ModelConfig:
    """Read config.json and generation_config.json of a checkpoint folder.

    Raises:
        CheckpointMissing: a file is not there.
        CheckpointInvalid: a field without default is missing, has another type, or asks for what is not supported.
    """
    path, notes = folder / "config.json", Notes()
    top = read_json(path)
    require(top.get("model_type") == "qwen3_tts", path, "model_type is not qwen3_tts")
    kind = top.get("tokenizer_type")
    require(kind in (None, SPEECH_TOKENIZER), path, f"tokenizer_type must be {SPEECH_TOKENIZER}")
    notes.unknown_in(top, TOP, "")

    talker_json = section_of(top, "talker_config", path, notes)
    predictor_json = section_of(talker_json, "code_predictor_config", path, notes)
    talker = _decoder(TalkerConfig, talker_json, path, "talker_config", notes)
    predictor = _decoder(DecoderConfig, predictor_json, path, "talker_config.code_predictor_config", notes)
    require(
        talker.num_code_groups == predictor.num_code_groups,
        path,
        "talker_config and code_predictor_config disagree on num_code_groups",
    )

    modes = _modes(top, path)
    speaker_encoder = None
    if Mode.BASE in modes:
        speaker_json = section_of(top, "speaker_encoder_config", path, notes)
        speaker_encoder = parse(SpeakerEncoderConfig, speaker_json, path, "speaker_encoder_config", notes)
        require(
            speaker_encoder.enc_dim == talker.hidden_size,
            path,
            "speaker_encoder_config.enc_dim must equal talker_config.hidden_size",
        )
        require(
            speaker_encoder.sample_rate == SAMPLE_RATE,
            path,
            f"speaker_encoder_config.sample_rate must be {SAMPLE_RATE}",
        )
    if Mode.CUSTOM_VOICE in modes:
        require(bool(talker.spk_id), path, "talker_config.spk_id names no speaker")

    _check_ids(talker, path)

    def token(name: str, default: int) -> int:
        index = _integer(top, name, default, path, notes)
        require(0 <= index < talker.text_vocab_size, path, f"{name} is {index}, which text_embedding does not have")
        return index

    return ModelConfig(
        talker=talker,
        predictor=predictor,
        speaker_encoder=speaker_encoder,
        generation=_generation(folder, notes),
        modes=modes,
        layouts=_words(Layout, top.get("voicewright_layouts", list(Layout)), path, "voicewright_layouts"),
        speaks=bool(top.get("voicewright_speaks", True)),
        part_chars=_part_chars(top, path),
        # The reference drops instruct for the 0.6B CustomVoice model (docs/model.md 3.2).
        takes_instruct=top.get("tts_model_size") != "0b6",
        im_start_token_id=token("im_start_token_id", 151_644),
        tts_pad_token_id=token("tts_pad_token_id", 151_671),
        tts_bos_token_id=token("tts_bos_token_id", 151_672),
        tts_eos_token_id=token("tts_eos_token_id", 151_673),
        notes=notes,
    )


def read_speech_tokenizer_config(folder: Path) -> SpeechTokenizerConfig:
    """Read speech_tokenizer/config.json, and preprocessor_config.json where there is one.

    Raises:
        CheckpointMissing: config.json is not there.
        CheckpointInvalid: a field without default is missing, has another type, or asks for what is not supported.
    """
    path, notes = folder / "config.json", Notes()
    top = read_json(path)
    kind = top.get("model_type", SPEECH_TOKENIZER)
    require(kind == SPEECH_TOKENIZER, path, f"model_type must be {SPEECH_TOKENIZER}")
    notes.unknown_in(top, TOKENIZER_TOP, "")
    decoder_json = rope_of(section_of(top, "decoder_config", path, notes), path, "decoder_config")
    code2wav = _with_head_dim(parse(Code2WavConfig, decoder_json, path, "decoder_config", notes))
    require(code2wav.hidden_act == "silu", path, "decoder_config.hidden_act must be silu")
    tokenizer = SpeechTokenizerConfig(
        code2wav=code2wav,
        encoder=_speech_encoder(
            rope_of(section_of(top, "encoder_config", path, notes), path, "encoder_config"), path, notes
        ),
        encoder_valid_num_quantizers=_integer(top, "encoder_valid_num_quantizers", 16, path, notes),
        input_sample_rate=_integer(top, "input_sample_rate", SAMPLE_RATE, path, notes),
        output_sample_rate=_integer(top, "output_sample_rate", SAMPLE_RATE, path, notes),
        encode_downsample_rate=_integer(top, "encode_downsample_rate", 1920, path, notes),
        decode_upsample_rate=_integer(top, "decode_upsample_rate", 1920, path, notes),
        notes=notes,
    )
    _check_preprocessor(folder / "preprocessor_config.json")
    return tokenizer


def _decoder(kind: type[Decoder], raw: dict[str, Any], path: Path, where: str, notes: Notes) -> Decoder:
    raw = rope_of(raw, path, where)
    part = _with_head_dim(parse(kind, raw, path, where, notes))
    if "num_key_value_heads" in raw and raw["num_key_value_heads"] is None:  # as many as heads; absent, the default
        part = replace(part, num_key_value_heads=part.num_attention_heads)
    require(part.hidden_act == "silu", path, f"{where}.hidden_act must be silu")
    require(not raw.get("use_sliding_window"), path, f"{where}.use_sliding_window is not supported")
    others = set(raw.get("layer_types") or ()) - {"full_attention"}
    require(not others, path, f"{where}.layer_types other than full_attention are not supported")
    require(not raw.get("tie_word_embeddings"), path, f"{where}.tie_word_embeddings is not supported")
    heads, groups = part.num_attention_heads, part.num_key_value_heads
    require(groups > 0 and heads % groups == 0, path, f"{where}.num_key_value_heads must divide num_attention_heads")
    require_sections(raw, part.head_dim, path, where)
    return part


def _speech_encoder(raw: dict[str, Any], path: Path, notes: Notes) -> SpeechEncoderConfig:
    encoder = _with_head_dim(parse(SpeechEncoderConfig, raw, path, "encoder_config", notes))
    if "codebook_dim" in raw and raw["codebook_dim"] is None:
        encoder = replace(encoder, codebook_dim=encoder.hidden_size)
    require(encoder.use_causal_conv, path, "encoder_config.use_causal_conv must be true")
    require(not encoder.use_conv_shortcut, path, "encoder_config.use_conv_shortcut must be false")
    require(encoder.hidden_act == "gelu", path, "encoder_config.hidden_act must be gelu")
    require(
        encoder.num_semantic_quantizers < encoder.num_quantizers,
        path,
        "encoder_config.num_semantic_quantizers must be less than num_quantizers",
    )
    return encoder


def _with_head_dim(part: Headed) -> Headed:
    return part if part.head_dim else replace(part, head_dim=part.hidden_size // max(1, part.num_attention_heads))


def _check_preprocessor(path: Path) -> None:
    """What would change a reference on its way into the speech encoder."""
    if not path.exists():
        return
    raw = read_json(path)
    require(raw.get("sampling_rate") in (None, SAMPLE_RATE), path, f"sampling_rate must be {SAMPLE_RATE}")
    require(raw.get("feature_size") in (None, 1), path, "feature_size must be 1")
    chunked = raw.get("chunk_length_s") is not None and raw.get("overlap") is not None
    require(not chunked, path, "chunk_length_s with overlap is not supported")


def _check_ids(talker: TalkerConfig, path: Path) -> None:
    """Every id that a prompt may hold must have its row: on a card, a read past a table ends the process."""
    special = {spec.name: getattr(talker, spec.name) for spec in fields(talker) if spec.name.startswith("codec_")}
    del special["codec_language_id"]
    for name, index in {**special, **talker.codec_language_id, **talker.spk_id}.items():
        require(0 <= index < talker.vocab_size, path, f"{name} is {index}, which codec_embedding does not have")
    for speaker, dialect in talker.spk_is_dialect.items():
        known = isinstance(dialect, bool) or dialect in talker.codec_language_id
        require(known, path, f"the dialect of {speaker} is not in codec_language_id")


def _generation(folder: Path, notes: Notes) -> GenerationDefaults:
    path = folder / "generation_config.json"
    return parse(GenerationDefaults, read_json(path), path, "generation_config", notes)


def _modes(top: dict[str, Any], path: Path) -> tuple[Mode, ...]:
    if top.get("voicewright_modes"):
        return _words(Mode, top["voicewright_modes"], path, "voicewright_modes")
    return _words(Mode, [required(top, "tts_model_type", path, "")], path, "tts_model_type")


def _part_chars(top: dict[str, Any], path: Path) -> int | None:
    if top.get("voicewright_part_chars") is None:
        return None
    count = int(typed(top["voicewright_part_chars"], int, path, "voicewright_part_chars"))
    require(count >= 1, path, f"voicewright_part_chars is {count}; it must be at least 1")
    return count


def _words(kind: type[Word], words: Any, path: Path, where: str) -> tuple[Word, ...]:
    known = set(kind)
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word in known for word in words):
        raise CheckpointInvalid(path=path, why=f"{where} is not of {', '.join(kind)}")
    return tuple(kind(word) for word in words)


def _integer(raw: dict[str, Any], name: str, default: int, path: Path, notes: Notes) -> int:
    if raw.get(name) is None:
        notes.defaulted.append(name)
        return default
    return int(typed(raw[name], int, path, name))
