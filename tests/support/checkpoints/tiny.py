"""Specifications of the tiny checkpoints for tests."""

from __future__ import annotations

from dataclasses import replace

from tests.support.checkpoints.spec import (
    IM_SPECIALS,
    SUPPRESSED_IDS,
    TTS_SPECIALS,
    CheckpointSpec,
    Code2WavSpec,
    EncoderSpec,
    SpeakerEncoderSpec,
    Stack,
    codec_ids_after,
)

# Texts that are single tokens. If merges conflict, earlier texts have priority. The first two texts must be single
# tokens in every checkpoint. The next two are single tokens only with Qwen2's pre-tokenizer, because other
# pre-tokenizers split at the inner capital.
WORDS = (
    *("assistant", "user", "iPhone", "McDonald", "the", "and", "ing", "you", "is", "er", "speak", "voice"),
    *("hello", "world", "clear", "calm", "low", "happy", "warm", "young", "old", "slow", "costs", "phone"),
    *("in", "Los", "Angeles", "\u4f60", "\u597d", "\u6211", "\u7684", "\u58f0", "\u97f3", "\u8bf4"),
)
TOKENS = (*WORDS, *(" " + word for word in WORDS[2:]))

TINY = CheckpointSpec(
    name="tiny",
    model_size="1b7",
    talker=Stack(hidden=64, intermediate=96, layers=2, heads=4, kv_heads=2, head_dim=16),
    predictor=Stack(hidden=64, intermediate=80, layers=2, heads=4, kv_heads=2, head_dim=16),
    text_hidden=48,
    codec_vocab=64 + SUPPRESSED_IDS,
    codebook_size=64,
    code_groups=16,
    mrope_section=(4, 2, 2),
    mrope_interleaved=True,
    codec_ids=codec_ids_after(64),
    languages={"chinese": 71, "english": 66, "japanese": 74, "german": 69},
    dialects={"beijing_dialect": 90, "sichuan_dialect": 78},
    speakers={"serena": 1080, "vivian": 1079, "ryan": 1075, "uncle_fu": 1024, "eric": 889, "dylan": 892},
    speaker_dialects={"eric": "sichuan_dialect", "dylan": "beijing_dialect"},
    tokens=TOKENS,
    special_tokens=(*IM_SPECIALS, "<|audio_start|>", "<|audio_end|>", *TTS_SPECIALS),
    code2wav=Code2WavSpec(
        transformer=Stack(
            hidden=32,
            intermediate=48,
            layers=2,
            heads=4,
            kv_heads=4,
            head_dim=8,
            rope_theta=10_000.0,
            rms_norm_eps=1e-5,
        ),
        sliding_window=16,
        codebook_dim=32,
        latent=24,
        decoder_dim=64,
    ),
    encoder=EncoderSpec(filters=4, hidden=32, intermediate=64, layers=2, heads=4, sliding_window=20, codebook_dim=16),
    speaker_encoder=SpeakerEncoderSpec(channels=(32, 32, 32, 32, 96), attention=16, squeeze=16),
)

TINY_0B6 = replace(TINY, name="tiny_0b6", model_size="0b6")
TINY_EOS = replace(TINY, name="tiny_eos", eos_scale=1.5)  # Checkpoint with which some utterances end with EOS.

ODD = CheckpointSpec(
    name="odd",
    model_size="1b7",
    talker=Stack(
        hidden=48, intermediate=112, layers=3, heads=6, kv_heads=3, head_dim=12, rope_theta=50_000.0, rms_norm_eps=1e-5
    ),
    predictor=Stack(
        hidden=40, intermediate=72, layers=1, heads=2, kv_heads=1, head_dim=20, rope_theta=8_000.0, rms_norm_eps=2e-6
    ),
    text_hidden=56,
    codec_vocab=100 + SUPPRESSED_IDS,  # The talker has fewer codes than the codebooks.
    codebook_size=128,
    code_groups=8,
    mrope_section=(3, 2, 1),
    mrope_interleaved=False,
    codec_ids={
        "codec_pad_id": 1101,
        "codec_bos_id": 1102,
        "codec_eos_token_id": 1100,
        "codec_think_id": 203,
        "codec_nothink_id": 202,
        "codec_think_bos_id": 201,
        "codec_think_eos_id": 200,
    },
    languages={"chinese": 140, "english": 139, "french": 150, "korean": 131},
    dialects={"cantonese_dialect": 160},
    speakers={"ada": 300, "bob_2": 301, "mei": 302},
    speaker_dialects={"mei": "cantonese_dialect"},
    tokens=TOKENS,
    special_tokens=("<extra>", *TTS_SPECIALS, *IM_SPECIALS),
    code2wav=Code2WavSpec(
        transformer=Stack(
            hidden=36, intermediate=40, layers=3, heads=3, kv_heads=3, head_dim=8, rope_theta=2_000.0, rms_norm_eps=1e-6
        ),
        sliding_window=7,
        codebook_dim=20,
        latent=28,
        decoder_dim=40,
        upsampling_ratios=(3, 2),
        upsample_rates=(8, 5, 4),
    ),
    encoder=EncoderSpec(
        filters=3,
        ratios=(10, 8, 6),
        hidden=24,
        intermediate=40,
        layers=1,
        heads=3,
        sliding_window=15,
        codebook_dim=12,
        quantizers=12,
    ),
    speaker_encoder=SpeakerEncoderSpec(
        channels=(24, 24, 24, 48),
        kernels=(5, 3, 3, 1),
        dilations=(1, 2, 3, 1),
        attention=20,
        res2net_scale=4,
        squeeze=12,
    ),
    generation={"repetition_penalty": 1.2, "top_k": 20, "max_new_tokens": 600},
)

# Code2Wav with one layer, and with two upsampling blocks instead of four. The number of samples per frame is the same.
SHORT_CODE2WAV = replace(
    TINY.code2wav,
    transformer=replace(TINY.code2wav.transformer, layers=1),
    decoder_dim=16,
    upsample_rates=(24, 20),
)

# Checkpoint for tests that need many frames with any content. A frame costs a quarter of a frame of TINY.
QUICK = replace(
    TINY,
    name="quick",
    eos_scale=0.0,  # A greedy utterance never ends with EOS.
    talker=replace(TINY.talker, layers=1),
    predictor=replace(TINY.predictor, layers=1),
    code_groups=2,
    code2wav=SHORT_CODE2WAV,
)

# Checkpoint like TINY with fewer code groups and a shallower Code2Wav, for tests that do not depend on these numbers.
# Comparisons with the reference use all sixteen groups.
BRIEF = replace(TINY, name="brief", code_groups=4, code2wav=SHORT_CODE2WAV)

SPECS = {spec.name: spec for spec in (TINY, TINY_0B6, TINY_EOS, ODD, QUICK, BRIEF)}
