"""Typed configuration of a checkpoint, with the defaults of the reference implementation.

Missing fields have the defaults of qwen-tts 0.1.1 (with Mimi from transformers 4.57.3). Tests in tests/golden compare
the defaults with the reference implementation.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from math import prod

from runtime.model.checkpoints.config_reader import FieldNotes
from runtime.request import SAMPLE_RATE, Layout, Mode

# Number of special tokens at the end of codec_embedding. Of these tokens, only EOS can be sampled (docs/model.md 4).
RESERVED_IDS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """Configuration of the decoder layers in the talker or in the code predictor.

    The defaults are those of the code predictor.
    """

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
    """Configuration of the talker: ``talker_config`` of config.json (docs/model.md 1.2).

    Codec ids are row numbers of the table ``codec_embedding``.
    """

    intermediate_size: int = 2048
    num_hidden_layers: int = 20
    num_key_value_heads: int = 2
    head_dim: int = 0  # The value 0 means hidden_size // num_attention_heads.
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
    spk_id: dict[str, int] = field(default_factory=dict)  # Row of each speaker in codec_embedding, by name.
    spk_is_dialect: dict[str, str | bool] = field(default_factory=dict)

    @property
    def codes(self) -> int:
        """Return the number of codes in codebook 0, without the reserved ids of the vocabulary."""
        return self.vocab_size - RESERVED_IDS

    @property
    def special_ids(self) -> dict[str, int]:
        """Return the ids of the special tokens and of the languages by name."""
        special = {spec.name: getattr(self, spec.name) for spec in fields(self) if spec.name.startswith("codec_")}
        del special["codec_language_id"]
        return {**special, **self.codec_language_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerEncoderConfig:
    """Configuration of the speaker encoder: ``speaker_encoder_config`` of config.json.

    Only Base checkpoints have a speaker encoder (docs/model.md 1.2, 2.3).
    """

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
    """Sampling defaults from ``generation_config.json``.

    docs/model.md 4 lists the defaults of missing fields.
    """

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
    """Configuration of one checkpoint, read from ``config.json``.

    The file may contain extensions of the published format (docs/checkpoints.md):

    * ``voicewright_modes``: modes of a checkpoint with several modes.
    * ``voicewright_layouts``: text layouts, for a checkpoint that supports only one.
    * ``voicewright_speaks``: false for random weights, which produce no speech.
    * ``voicewright_part_chars``: maximum characters of a segment, for a checkpoint that skips words of long texts.
    * ``voicewright_alphabet``: `ascii` for a checkpoint trained on ASCII only.
    * ``voicewright_quantization``: `int8` or `int4` for quantized weights.
    """

    talker: TalkerConfig
    predictor: DecoderConfig
    speaker_encoder: SpeakerEncoderConfig | None = None
    generation: GenerationDefaults = field(default_factory=GenerationDefaults)
    modes: tuple[Mode, ...]
    layouts: tuple[Layout, ...] = tuple(Layout)  # Layouts that the checkpoint supports.
    preferred_layout: Layout | None = None  # Layout that is used by default, or None for the default of the mode.
    speaks: bool = True
    part_chars: int | None = None  # Maximum number of characters of a segment, or None for the value in the settings.
    takes_instruct: bool
    im_start_token_id: int = 151_644
    tts_pad_token_id: int = 151_671
    tts_bos_token_id: int = 151_672
    tts_eos_token_id: int = 151_673
    # Alphabet of the texts in the training data, such as ascii, or None for all characters.
    alphabet: str | None = None
    # Quantization of the stored weights (int8 or int4), or None for published weights.
    quantization: str | None = None
    size: str | None = field(default=None, compare=False)  # Size of the model, which is only reported to the user.
    notes: FieldNotes = field(default_factory=FieldNotes, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Code2WavConfig:
    """Configuration of Code2Wav: ``decoder_config`` of the speech tokenizer.

    See docs/model.md 1.3.
    """

    codebook_size: int = 2048
    codebook_dim: int
    num_quantizers: int = 16
    latent_dim: int = 1024
    hidden_size: int = 1024
    intermediate_size: int = 3072
    num_hidden_layers: int = 8
    num_attention_heads: int = 16
    num_key_value_heads: int = 16
    head_dim: int = 0  # The value 0 means hidden_size // num_attention_heads.
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
    """Configuration of the speech encoder: ``encoder_config`` of the speech tokenizer.

    The fields are the same as in Mimi (docs/model.md 1.3).
    """

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
    head_dim: int = 0  # The value 0 means hidden_size // num_attention_heads.
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
        """Return the number of audio samples per latent vector of the SEANet encoder."""
        return prod(self.upsampling_ratios)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechTokenizerConfig:
    """Configuration of the speech tokenizer: the content of ``speech_tokenizer/config.json``."""

    code2wav: Code2WavConfig
    encoder: SpeechEncoderConfig
    encoder_valid_num_quantizers: int = 16
    input_sample_rate: int = SAMPLE_RATE
    output_sample_rate: int = SAMPLE_RATE
    encode_downsample_rate: int = 1920
    decode_upsample_rate: int = 1920
    notes: FieldNotes = field(default_factory=FieldNotes, compare=False)
