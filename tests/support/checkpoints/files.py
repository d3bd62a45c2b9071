"""Generator of all files of a checkpoint repository from a specification and a seed.

It needs only numpy. Therefore, the Python environments of the runtime and of the reference implementation can create
the same files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.checkpoints.draw import Draw
from tests.support.checkpoints.spec import MODES, CheckpointSpec, Stack
from tests.support.checkpoints.tensors import MEL_BINS, model_tensors, speech_tokenizer_tensors, text_rows
from tests.support.checkpoints.tokenizer import special_ids, vocabulary, write_tokenizer

SAMPLE_RATE = 24000

GENERATION = {
    "do_sample": True,
    "repetition_penalty": 1.05,
    "temperature": 0.9,
    "top_p": 1.0,
    "top_k": 50,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_p": 1.0,
    "subtalker_top_k": 50,
    "max_new_tokens": 8192,
}


def write_checkpoint(folder: Path, spec: CheckpointSpec, mode: str, seed: int) -> None:
    """Write all files of a checkpoint into `folder`, with random float32 weights."""
    write_drawn(folder, spec, mode, Draw(seed), "float32")


def write_drawn(folder: Path, spec: CheckpointSpec, mode: str, draw: Draw, dtype: str) -> None:
    """Write all files of a checkpoint, with random tensors from the generator `draw`."""
    if mode not in MODES:
        raise ValueError(f"mode {mode!r} is not one of {MODES}")
    tokenizer = folder / "speech_tokenizer"
    tokenizer.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", model_config(spec, mode))
    _write_json(folder / "generation_config.json", {**GENERATION, **spec.generation})
    _write_json(folder / "preprocessor_config.json", {"processor_class": "Qwen3TTSProcessor"})
    write_tokenizer(folder, spec.tokens, spec.special_tokens)
    draw.save(folder / "model.safetensors", model_tensors(draw, spec, mode), dtype)
    _write_json(tokenizer / "config.json", speech_tokenizer_config(spec))
    _write_json(tokenizer / "preprocessor_config.json", _feature_extractor())
    _write_json(tokenizer / "configuration.json", {"framework": "pytorch", "task": "audio-codec"})
    draw.save(tokenizer / "model.safetensors", speech_tokenizer_tensors(draw, spec), "float32")


def model_config(spec: CheckpointSpec, mode: str) -> dict[str, Any]:
    """Return the content of config.json, with all keys of the published file."""
    ids = special_ids(spec.tokens, spec.special_tokens)
    config: dict[str, Any] = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "assistant_token_id": vocabulary(spec.tokens)["assistant"],
        "im_end_token_id": ids["<|im_end|>"],
        "im_start_token_id": ids["<|im_start|>"],
        "tts_bos_token_id": ids["<tts_text_bos>"],
        "tts_eos_token_id": ids["<tts_text_eod>"],
        "tts_pad_token_id": ids["<tts_pad>"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": spec.model_size,
        "tts_model_type": mode,
        "talker_config": _talker_config(spec, mode),
        "transformers_version": "4.57.3",
    }
    if spec.is_endless:
        config["voicewright_speaks"] = False
    if mode == "base":
        encoder = spec.speaker_encoder
        config["speaker_encoder_config"] = {
            "mel_dim": MEL_BINS,
            "enc_dim": spec.talker.hidden,
            "enc_channels": encoder.channels,
            "enc_kernel_sizes": encoder.kernels,
            "enc_dilations": encoder.dilations,
            "enc_attention_channels": encoder.attention,
            "enc_res2net_scale": encoder.res2net_scale,
            "enc_se_channels": encoder.squeeze,
            "sample_rate": SAMPLE_RATE,
        }
    return config


def _talker_config(spec: CheckpointSpec, mode: str) -> dict[str, Any]:
    named = mode == "custom_voice"
    return {
        **_stack_config(spec.talker),
        **spec.codec_ids,
        "code_predictor_config": _predictor_config(spec),
        "codec_language_id": {**spec.languages, **(spec.dialects if named else {})},
        "spk_id": dict(spec.speakers) if named else {},
        "spk_is_dialect": ({name: spec.speaker_dialects.get(name, False) for name in spec.speakers} if named else {}),
        "max_position_embeddings": 32768,
        "model_type": "qwen3_tts_talker",
        "num_code_groups": spec.code_groups,
        "pad_token_id": spec.codec_ids["codec_pad_id"],
        "position_id_per_seconds": 13,
        "rope_scaling": {
            "interleaved": spec.mrope_interleaved,
            "mrope_section": spec.mrope_section,
            "rope_type": "default",
            "type": "default",
        },
        "text_hidden_size": spec.text_hidden,
        "text_vocab_size": text_rows(spec),
        "vocab_size": spec.codec_vocab,
    }


def _predictor_config(spec: CheckpointSpec) -> dict[str, Any]:
    return {
        **_stack_config(spec.predictor),
        "layer_types": ["full_attention"] * spec.predictor.layers,
        "max_length": 20,
        "max_position_embeddings": 65536,
        "max_window_layers": 28,
        "model_type": "qwen3_tts_talker_code_predictor",
        "num_code_groups": spec.code_groups,
        "pad_token_id": None,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "vocab_size": spec.codebook_size,
    }


def _stack_config(stack: Stack) -> dict[str, Any]:
    return {
        "attention_bias": False,
        "attention_dropout": 0,
        "head_dim": stack.head_dim,
        "hidden_act": "silu",
        "hidden_size": stack.hidden,
        "initializer_range": 0.02,
        "intermediate_size": stack.intermediate,
        "num_attention_heads": stack.heads,
        "num_hidden_layers": stack.layers,
        "num_key_value_heads": stack.kv_heads,
        "rms_norm_eps": stack.rms_norm_eps,
        "rope_theta": stack.rope_theta,
        "sliding_window": None,
        "use_cache": True,
        "use_sliding_window": False,
    }


def speech_tokenizer_config(spec: CheckpointSpec) -> dict[str, Any]:
    """Return the content of speech_tokenizer/config.json, with all keys of the published file."""
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_valid_num_quantizers": spec.code_groups,
        "input_sample_rate": SAMPLE_RATE,
        "output_sample_rate": SAMPLE_RATE,
        "decode_upsample_rate": spec.samples_per_frame,
        "encode_downsample_rate": 2 * int(np.prod(spec.encoder.ratios)),
        "decoder_config": _decoder_config(spec),
        "encoder_config": _encoder_config(spec),
        "transformers_version": "4.57.3",
    }


def _decoder_config(spec: CheckpointSpec) -> dict[str, Any]:
    code2wav = spec.code2wav
    transformer = _stack_config(code2wav.transformer)
    for absent in ("use_cache", "use_sliding_window", "initializer_range"):
        del transformer[absent]
    return {
        **transformer,
        "codebook_dim": code2wav.codebook_dim,
        "codebook_size": spec.codebook_size,
        "decoder_dim": code2wav.decoder_dim,
        "latent_dim": code2wav.latent,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "num_quantizers": spec.code_groups,
        "num_semantic_quantizers": 1,
        "semantic_codebook_size": 2 * spec.codebook_size,
        "sliding_window": code2wav.sliding_window,
        "upsample_rates": code2wav.upsample_rates,
        "upsampling_ratios": code2wav.upsampling_ratios,
        "vector_quantization_hidden_dimension": code2wav.codebook_dim,
    }


def _encoder_config(spec: CheckpointSpec) -> dict[str, Any]:
    encoder = spec.encoder
    return {
        "_frame_rate": SAMPLE_RATE / (2 * int(np.prod(encoder.ratios))),
        "attention_bias": False,
        "attention_dropout": 0.0,
        "audio_channels": 1,
        "codebook_dim": encoder.codebook_dim,
        "codebook_size": spec.codebook_size,
        "compress": 2,
        "dilation_growth_rate": 2,
        "dtype": "float32",
        "head_dim": encoder.hidden // encoder.heads,
        "hidden_act": "gelu",
        "hidden_size": encoder.hidden,
        "initializer_range": 0.02,
        "intermediate_size": encoder.intermediate,
        "kernel_size": 7,
        "last_kernel_size": 3,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "norm_eps": 1e-05,
        "num_attention_heads": encoder.heads,
        "num_filters": encoder.filters,
        "num_hidden_layers": encoder.layers,
        "num_key_value_heads": encoder.heads,
        "num_quantizers": encoder.quantizers,
        "num_residual_layers": 1,
        "num_semantic_quantizers": 1,
        "pad_mode": "constant",
        "residual_kernel_size": 3,
        "rope_theta": 10000.0,
        "sampling_rate": SAMPLE_RATE,
        "sliding_window": encoder.sliding_window,
        "trim_right_ratio": 1.0,
        "upsample_groups": encoder.hidden,
        "upsampling_ratios": encoder.ratios,
        "use_cache": False,
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "use_streaming": False,
        "vector_quantization_hidden_dimension": encoder.codebook_dim,
    }


def _feature_extractor() -> dict[str, Any]:
    return {
        "chunk_length_s": None,
        "feature_extractor_type": "EncodecFeatureExtractor",
        "feature_size": 1,
        "overlap": None,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": True,
        "sampling_rate": SAMPLE_RATE,
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
