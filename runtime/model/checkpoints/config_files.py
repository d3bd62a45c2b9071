"""Parser of a checkpoint's JSON files with an allow-list of fields.

Fields without a default in the reference implementation are required. Unsupported values are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from runtime.errors import CheckpointInvalid, CheckpointUnsupported
from runtime.model.checkpoints.config_reader import (
    FieldNotes,
    convert_value,
    parse_section,
    read_json,
    require_condition,
    require_sections,
    rope_of,
    section_of,
    word_set,
)
from runtime.model.config import (
    Code2WavConfig,
    DecoderConfig,
    GenerationDefaults,
    ModelConfig,
    SpeakerEncoderConfig,
    SpeechEncoderConfig,
    SpeechTokenizerConfig,
    TalkerConfig,
)
from runtime.request import SAMPLE_RATE, Layout, Mode

MODEL, SPEECH_TOKENIZER = "qwen3_tts", "qwen3_tts_tokenizer_12hz"
WRITABLE_QUANTIZATIONS = ("int8", "int4")  # Quantizations that `voicewright quantize` can write.
ALPHABETS = ("ascii",)
MAX_KIND_CHARS = 60  # Maximum number of characters of an unknown model type in an error message.
# Names of the field with the modes. If a configuration has both fields, the first one is used.
MODE_FIELDS = ("voicewright_modes", "tts_model_type")
# Fields in which transformers and MLX describe a quantization.
QUANTIZATION_FIELDS = ("quantization_config", "quantization")

# Names of the top-level fields that are read, in addition to the fields of the sections.
TOP = word_set(
    """
    model_type tokenizer_type talker_config speaker_encoder_config tts_model_type tts_model_size im_start_token_id
    tts_pad_token_id tts_bos_token_id tts_eos_token_id voicewright_modes voicewright_layouts voicewright_speaks
    voicewright_part_chars voicewright_alphabet voicewright_quantization
    """
)
TOKENIZER_TOP = word_set(
    """
    model_type decoder_config encoder_config encoder_valid_num_quantizers input_sample_rate output_sample_rate
    encode_downsample_rate decode_upsample_rate
    """
)

Word = TypeVar("Word", Mode, Layout)
Decoder = TypeVar("Decoder", DecoderConfig, TalkerConfig)
Headed = TypeVar("Headed", DecoderConfig, TalkerConfig, Code2WavConfig, SpeechEncoderConfig)


def read_model_config(folder: Path, content: dict[str, Any] | None = None, path: Path | None = None) -> ModelConfig:
    """Read config.json and generation_config.json of a checkpoint folder.

    Args:
        content: Content to use instead of the content of config.json.
        path: File to name in errors, if the content has parts of another file.

    Raises:
        CheckpointMissing: A file is missing.
        CheckpointInvalid: A required field is missing, or a value has another type or is not supported.
    """
    path, notes = path or folder / "config.json", FieldNotes()
    top = read_json(path) if content is None else content
    _require_kind(top, "model_type", (MODEL,), path)
    _require_kind(top, "tokenizer_type", (None, SPEECH_TOKENIZER), path)
    _refuse_quantized(top, path)
    notes.unknown_in(top, TOP, "")

    talker_json = _with_plain_speakers(section_of(top, "talker_config", path, notes))
    predictor_json = section_of(talker_json, "code_predictor_config", path, notes)
    talker = _decoder(TalkerConfig, talker_json, path, "talker_config", notes)
    predictor = _decoder(DecoderConfig, predictor_json, path, "talker_config.code_predictor_config", notes)
    require_condition(
        talker.num_code_groups == predictor.num_code_groups,
        path,
        "talker_config and code_predictor_config disagree on num_code_groups",
    )

    modes = _modes(top, path)
    speaker_encoder = None
    if Mode.BASE in modes:
        speaker_json = section_of(top, "speaker_encoder_config", path, notes)
        speaker_encoder = parse_section(SpeakerEncoderConfig, speaker_json, path, "speaker_encoder_config", notes)
        require_condition(
            speaker_encoder.enc_dim == talker.hidden_size,
            path,
            "speaker_encoder_config.enc_dim must equal talker_config.hidden_size",
        )
        require_condition(
            speaker_encoder.sample_rate == SAMPLE_RATE,
            path,
            f"speaker_encoder_config.sample_rate must be {SAMPLE_RATE}",
        )
    if Mode.CUSTOM_VOICE in modes:
        require_condition(bool(talker.spk_id), path, "talker_config.spk_id names no speaker")

    _check_ids(talker, path)
    talker = _with_known_dialects(talker, notes)

    layouts = _enum_values(Layout, top.get("voicewright_layouts", list(Layout)), path, "voicewright_layouts")

    tokens = _integers(ModelConfig, top, path, notes)
    for name, index in tokens.items():
        require_condition(
            0 <= index < talker.text_vocab_size, path, f"{name} is {index}, which text_embedding does not have"
        )

    return ModelConfig(
        talker=talker,
        predictor=predictor,
        speaker_encoder=speaker_encoder,
        generation=_generation(folder, notes),
        modes=modes,
        layouts=layouts,
        preferred_layout=layouts[0] if "voicewright_layouts" in top else None,
        speaks=bool(top.get("voicewright_speaks", True)),
        part_chars=_part_chars(top, path),
        # The reference implementation ignores instructions for the 0.6B CustomVoice model (docs/model.md 3.2).
        takes_instruct=top.get("tts_model_size") != "0b6",
        alphabet=_one_of(ALPHABETS, top, path, "voicewright_alphabet"),
        quantization=_one_of(WRITABLE_QUANTIZATIONS, top, path, "voicewright_quantization"),
        size=size if isinstance(size := top.get("tts_model_size"), str) else None,
        notes=notes,
        **tokens,
    )


def read_speech_tokenizer_config(folder: Path) -> SpeechTokenizerConfig:
    """Read speech_tokenizer/config.json, and preprocessor_config.json if it exists.

    Raises:
        CheckpointMissing: config.json is missing.
        CheckpointInvalid: A required field is missing, or a value has another type or is not supported.
    """
    path, notes = folder / "config.json", FieldNotes()
    top = read_json(path)
    _require_kind(top, "model_type", (None, SPEECH_TOKENIZER), path)
    _refuse_quantized(top, path)
    notes.unknown_in(top, TOKENIZER_TOP, "")
    decoder_json = rope_of(section_of(top, "decoder_config", path, notes), path, "decoder_config")
    code2wav = _with_head_dim(parse_section(Code2WavConfig, decoder_json, path, "decoder_config", notes))
    require_condition(code2wav.hidden_act == "silu", path, "decoder_config.hidden_act must be silu")
    tokenizer = SpeechTokenizerConfig(
        code2wav=code2wav,
        encoder=_speech_encoder(
            rope_of(section_of(top, "encoder_config", path, notes), path, "encoder_config"), path, notes
        ),
        notes=notes,
        **_integers(SpeechTokenizerConfig, top, path, notes),
    )
    _check_preprocessor(folder / "preprocessor_config.json")
    return tokenizer


def _decoder(kind: type[Decoder], raw: dict[str, Any], path: Path, section: str, notes: FieldNotes) -> Decoder:
    raw = rope_of(raw, path, section)
    part = _with_head_dim(parse_section(kind, raw, path, section, notes))
    # The value null means the number of attention heads, and a missing field means the default.
    if "num_key_value_heads" in raw and raw["num_key_value_heads"] is None:
        part = replace(part, num_key_value_heads=part.num_attention_heads)
    require_condition(part.hidden_act == "silu", path, f"{section}.hidden_act must be silu")
    require_condition(not raw.get("use_sliding_window"), path, f"{section}.use_sliding_window is not supported")
    others = set(raw.get("layer_types") or ()) - {"full_attention"}
    require_condition(not others, path, f"{section}.layer_types other than full_attention are not supported")
    require_condition(not raw.get("tie_word_embeddings"), path, f"{section}.tie_word_embeddings is not supported")
    heads, groups = part.num_attention_heads, part.num_key_value_heads
    require_condition(
        groups > 0 and heads % groups == 0, path, f"{section}.num_key_value_heads must divide num_attention_heads"
    )
    require_sections(raw, part.head_dim, path, section)
    return part


def _speech_encoder(raw: dict[str, Any], path: Path, notes: FieldNotes) -> SpeechEncoderConfig:
    encoder = _with_head_dim(parse_section(SpeechEncoderConfig, raw, path, "encoder_config", notes))
    if "codebook_dim" in raw and raw["codebook_dim"] is None:
        encoder = replace(encoder, codebook_dim=encoder.hidden_size)
    require_condition(encoder.use_causal_conv, path, "encoder_config.use_causal_conv must be true")
    require_condition(not encoder.use_conv_shortcut, path, "encoder_config.use_conv_shortcut must be false")
    require_condition(encoder.hidden_act == "gelu", path, "encoder_config.hidden_act must be gelu")
    require_condition(
        encoder.num_semantic_quantizers < encoder.num_quantizers,
        path,
        "encoder_config.num_semantic_quantizers must be less than num_quantizers",
    )
    return encoder


def _with_head_dim(part: Headed) -> Headed:
    return part if part.head_dim else replace(part, head_dim=part.hidden_size // max(1, part.num_attention_heads))


def _check_preprocessor(path: Path) -> None:
    """Refuse preprocessor settings that would change the input of the speech encoder."""
    if not path.exists():
        return
    raw = read_json(path)
    require_condition(raw.get("sampling_rate") in (None, SAMPLE_RATE), path, f"sampling_rate must be {SAMPLE_RATE}")
    require_condition(raw.get("feature_size") in (None, 1), path, "feature_size must be 1")
    chunked = raw.get("chunk_length_s") is not None and raw.get("overlap") is not None
    require_condition(not chunked, path, "chunk_length_s with overlap is not supported")


def _check_ids(talker: TalkerConfig, path: Path) -> None:
    """Check that every codec id of a prompt has a row in the embedding table.

    On CUDA, a read beyond the end of a table crashes the process.
    """
    for name, index in {**talker.special_ids, **talker.spk_id}.items():
        require_condition(
            0 <= index < talker.vocab_size, path, f"{name} is {index}, which codec_embedding does not have"
        )


def _with_plain_speakers(talker: dict[str, Any]) -> dict[str, Any]:
    """Unwrap speaker ids from lists of one element, which the official package also accepts."""
    speakers = talker.get("spk_id")
    if not isinstance(speakers, dict):
        return talker
    return {**talker, "spk_id": {name: _only(kwargs) for name, kwargs in speakers.items()}}


def _only(value: Any) -> Any:
    while isinstance(value, list) and len(value) == 1:
        (value,) = value
    return value


def _with_known_dialects(talker: TalkerConfig, notes: FieldNotes) -> TalkerConfig:
    """Drop speaker dialects that are missing in the language table.

    Fine-tuned models copy such dialects from the base model.
    """
    copied = {
        speaker: dialect
        for speaker, dialect in talker.spk_is_dialect.items()
        if isinstance(dialect, bool) or dialect in talker.codec_language_id
    }
    notes.unknown += [f"talker_config.spk_is_dialect.{name}" for name in talker.spk_is_dialect.keys() - copied.keys()]
    return replace(talker, spk_is_dialect=copied)


def _generation(folder: Path, notes: FieldNotes) -> GenerationDefaults:
    path = folder / "generation_config.json"
    return parse_section(GenerationDefaults, read_json(path), path, "generation_config", notes)


def _require_kind(top: dict[str, Any], name: str, known: Sequence[str | None], path: Path) -> None:
    """Raise CheckpointUnsupported if the field's value is not in `known`.

    None in `known` allows a missing field.
    """
    kind = top.get(name)
    if kind not in known:
        require_condition(kind is not None, path, f"{name} is missing")
        names = ", ".join(filter(None, known))
        raise CheckpointUnsupported(path=path, why=f"{name} is {repr(kind)[:MAX_KIND_CHARS]} and not of {names}")


def _refuse_quantized(top: dict[str, Any], path: Path) -> None:
    for name in QUANTIZATION_FIELDS:
        if quantization := top.get(name):
            method = quantization.get("quant_method") if isinstance(quantization, dict) else None
            by = f" by {method}" if isinstance(method, str) else ""
            why = f"{name} declares quantized weights{by}. Use the original checkpoint"
            raise CheckpointUnsupported(path=path, why=why)


def _modes(top: dict[str, Any], path: Path) -> tuple[Mode, ...]:
    if top.get("voicewright_modes"):
        return _enum_values(Mode, top["voicewright_modes"], path, "voicewright_modes")
    _require_kind(top, "tts_model_type", tuple(Mode), path)
    return (Mode(top["tts_model_type"]),)


def _part_chars(top: dict[str, Any], path: Path) -> int | None:
    if top.get("voicewright_part_chars") is None:
        return None
    count = int(convert_value(top["voicewright_part_chars"], int, path, "voicewright_part_chars"))
    require_condition(count >= 1, path, f"voicewright_part_chars is {count}; it must be at least 1")
    return count


def _one_of(known: Sequence[str], top: dict[str, Any], path: Path, name: str) -> str | None:
    word = top.get(name)
    require_condition(word is None or word in known, path, f"{name} is not of {', '.join(known)}")
    return None if word is None else str(word)


def _enum_values(kind: type[Word], items: Any, path: Path, section: str) -> tuple[Word, ...]:
    known = set(kind)
    if not isinstance(items, list) or not items or not all(isinstance(word, str) and word in known for word in items):
        raise CheckpointInvalid(path=path, why=f"{section} is not of {', '.join(kind)}")
    return tuple(kind(word) for word in items)


def _integers(
    kind: type[ModelConfig | SpeechTokenizerConfig], raw: dict[str, Any], path: Path, notes: FieldNotes
) -> dict[str, Any]:
    """Return the values of the top-level fields whose default is an integer."""
    defaults = {spec.name: spec.default for spec in fields(kind) if type(spec.default) is int}
    notes.defaulted += [name for name in defaults if raw.get(name) is None]
    given = {name: raw[name] for name in defaults if raw.get(name) is not None}
    return defaults | {name: convert_value(value, int, path, name) for name, value in given.items()}
