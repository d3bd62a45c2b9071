"""Specification of a checkpoint: shapes, token IDs and tables.

This file contains only numbers; `files.py` creates the files. The defaults are the published values. All published
checkpoints have 16 code groups, 1920 samples per frame, and the same number of codes in all codebooks. Each of these
numbers can be changed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MODES = ("custom_voice", "voice_design", "base")

# Number of IDs at the end of the talker's vocabulary that the reference implementation suppresses, regardless of the
# codebook size.
SUPPRESSED_IDS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Dimensions of the layers of the talker, code predictor or Code2Wav transformer."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_theta: float = 1_000_000.0
    rms_norm_eps: float = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Code2WavSpec:
    """Dimensions of Code2Wav, the decoder of the speech tokenizer."""

    transformer: Stack
    sliding_window: int  # Number of keys that a frame attends to, including its own key.
    codebook_dim: int  # Twice the width of one codebook row.
    latent: int
    decoder_dim: int  # Every upsampling block halves this number of channels.
    upsampling_ratios: tuple[int, ...] = (2, 2)
    upsample_rates: tuple[int, ...] = (8, 5, 4, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSpec:
    """Dimensions of the speech encoder (Mimi)."""

    filters: int
    ratios: tuple[int, ...] = (8, 6, 5, 4)  # Strides of the config. The encoder applies them in reverse order.
    hidden: int
    intermediate: int
    layers: int
    heads: int
    sliding_window: int  # Field of the config that the reference implementation ignores.
    codebook_dim: int
    quantizers: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerEncoderSpec:
    """Dimensions of the speaker encoder (ECAPA-TDNN).

    The last entry of each list belongs to the layer that combines the outputs of the blocks.
    """

    channels: tuple[int, ...]
    kernels: tuple[int, ...] = (5, 3, 3, 3, 1)
    dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    attention: int
    res2net_scale: int = 8
    squeeze: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSpec:
    """Specification of one checkpoint, without its mode and seed."""

    name: str
    model_size: str  # With "0b6", CustomVoice ignores instructions. With "1b7", CustomVoice follows them.
    talker: Stack
    predictor: Stack
    text_hidden: int
    codec_vocab: int
    codebook_size: int  # Mimi requires a power of two.
    code_groups: int
    mrope_section: tuple[int, int, int]
    mrope_interleaved: bool
    codec_ids: Mapping[str, int]  # Token IDs by their keys in talker_config.
    languages: Mapping[str, int]
    dialects: Mapping[str, int]
    speakers: Mapping[str, int]
    speaker_dialects: Mapping[str, str]
    tokens: tuple[str, ...]  # Texts that are single tokens of the BPE vocabulary, in addition to all bytes.
    special_tokens: tuple[str, ...]  # Special tokens, sorted by ID. Their IDs follow the BPE vocabulary.
    code2wav: Code2WavSpec
    encoder: EncoderSpec
    speaker_encoder: SpeakerEncoderSpec
    generation: Mapping[str, float | int | bool] = field(default_factory=dict)
    # Standard deviation of the logits. It is large, so rounding does not change the order of the logits.
    logit_scale: float = 4.0
    eos_scale: float = 0.65  # Relative scale of the EOS logit. With this value, greedy utterances have several frames.
    is_endless: bool = False  # True if EOS is never sampled, for all sampling parameters (endless.py).
    text_rows: int | None = None  # Number of rows of the text embedding, or None for the next multiple of 64.

    @property
    def samples_per_frame(self) -> int:
        """Return the number of audio samples that Code2Wav generates per frame."""
        total = 1
        for rate in self.code2wav.upsampling_ratios + self.code2wav.upsample_rates:
            total *= rate
        return total


def codec_ids_after(codes: int) -> dict[str, int]:
    """Return the special token IDs of the codec vocabulary, which follow its `codes` codes."""
    offsets = {
        "codec_pad_id": 100,
        "codec_bos_id": 101,
        "codec_eos_token_id": 102,
        "codec_think_id": 106,
        "codec_nothink_id": 107,
        "codec_think_bos_id": 108,
        "codec_think_eos_id": 109,
    }
    return {name: codes + offset for name, offset in offsets.items()}


IM_SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TTS_SPECIALS = ("<tts_pad>", "<tts_text_bos>", "<tts_text_eod>", "<tts_text_bos_single>")
