"""Specifications of the published 0.6B and 1.7B checkpoints (docs/model.md 1.2, 1.3)."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.common.texts import single_tokens
from tests.support.checkpoints.spec import (
    IM_SPECIALS,
    TTS_SPECIALS,
    CheckpointSpec,
    Code2WavSpec,
    EncoderSpec,
    SpeakerEncoderSpec,
    Stack,
    codec_ids_after,
)

TALKER = Stack(hidden=2048, intermediate=6144, layers=28, heads=16, kv_heads=8, head_dim=128)

LARGE = CheckpointSpec(
    name="1.7B",
    model_size="1b7",
    is_endless=True,
    talker=TALKER,
    predictor=replace(TALKER, hidden=1024, intermediate=3072, layers=5),
    text_hidden=2048,
    codec_vocab=3072,
    codebook_size=2048,
    code_groups=16,
    mrope_section=(24, 20, 20),
    mrope_interleaved=True,
    codec_ids=codec_ids_after(2048),
    languages={
        "chinese": 2055,
        "english": 2050,
        "german": 2053,
        "italian": 2070,
        "portuguese": 2071,
        "spanish": 2054,
        "japanese": 2058,
        "korean": 2064,
        "french": 2061,
        "russian": 2069,
    },
    dialects={"beijing_dialect": 2074, "sichuan_dialect": 2062},
    speakers={
        "serena": 3066,
        "vivian": 3065,
        "uncle_fu": 3010,
        "ryan": 3061,
        "aiden": 2861,
        "ono_anna": 2873,
        "sohee": 2864,
        "eric": 2875,
        "dylan": 2878,
    },
    speaker_dialects={"eric": "sichuan_dialect", "dylan": "beijing_dialect"},
    tokens=single_tokens(),
    special_tokens=(*IM_SPECIALS, *TTS_SPECIALS),
    text_rows=151_936,
    code2wav=Code2WavSpec(
        transformer=Stack(
            hidden=512,
            intermediate=1024,
            layers=8,
            heads=16,
            kv_heads=16,
            head_dim=64,
            rope_theta=10_000.0,
            rms_norm_eps=1e-5,
        ),
        sliding_window=72,
        codebook_dim=512,
        latent=1024,
        decoder_dim=1536,
    ),
    encoder=EncoderSpec(
        filters=64, hidden=512, intermediate=2048, layers=8, heads=8, sliding_window=250, codebook_dim=256
    ),
    speaker_encoder=SpeakerEncoderSpec(channels=(512, 512, 512, 512, 1536), attention=128, squeeze=128),
)

SMALL = replace(LARGE, name="0.6B", model_size="0b6", talker=replace(TALKER, hidden=1024, intermediate=3072))

PUBLISHED = {spec.name: spec for spec in (SMALL, LARGE)}
