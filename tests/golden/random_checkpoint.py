"""Generator of random checkpoints that uses the reference's own classes.

The seed determines widths, layers, tables and token IDs. `save_pretrained` writes the files, so config.json has the
fields of the reference. The module runs only inside .venv-oracle.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from qwen_tts.core.models import Qwen3TTSConfig, Qwen3TTSForConditionalGeneration
from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Config
from qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Model
from transformers import EncodecFeatureExtractor

from tests.support.checkpoints.files import GENERATION
from tests.support.checkpoints.tiny import TOKENS
from tests.support.checkpoints.tokenizer import special_ids, vocabulary, write_tokenizer

SPECIALS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    *("<tts_pad>", "<tts_text_bos>", "<tts_text_eod>", "<tts_text_bos_single>"),
)


def random_checkpoint(folder: Path, mode: str, seed: int) -> None:
    """Write a random checkpoint in the published layout for one mode."""
    torch.manual_seed(seed)
    stream = np.random.RandomState(seed)
    codebook = int(stream.choice([64, 128, 256]))
    model = Qwen3TTSForConditionalGeneration(Qwen3TTSConfig(**_model_config(stream, mode, codebook)))
    tokenizer = Qwen3TTSTokenizerV2Model(Qwen3TTSTokenizerV2Config(**_tokenizer_config(stream, codebook)))
    for network in (model, tokenizer):
        _randomise(network)
    model.save_pretrained(folder)
    _repair_config(folder / "config.json", mode)
    tokenizer.save_pretrained(folder / "speech_tokenizer")
    EncodecFeatureExtractor().save_pretrained(folder / "speech_tokenizer")
    (folder / "preprocessor_config.json").write_text(json.dumps({"processor_class": "Qwen3TTSProcessor"}))
    (folder / "generation_config.json").write_text(json.dumps(GENERATION))
    write_tokenizer(folder, TOKENS, SPECIALS)


def _repair_config(path: Path, mode: str) -> None:
    # The reference implementation cannot read the empty model_type that it writes. Of the published checkpoints, only
    # those of Base have a speaker encoder.
    config = json.loads(path.read_text())
    section = config.pop("speaker_encoder_config")
    del section["model_type"]
    if mode == "base":
        config["speaker_encoder_config"] = section
    path.write_text(json.dumps(config, indent=2) + "\n")


def _randomise(network: torch.nn.Module) -> None:
    # The reference's initial weights leave codebooks empty and layers without effect, which is useless for tests.
    for name, tensor in network.state_dict().items():
        if name.endswith("initialized"):
            tensor.fill_(1.0)
        elif name.endswith("cluster_usage"):
            tensor.uniform_(0.5, 4.0)
        elif name.endswith(("alpha", "beta", "bias")):
            tensor.normal_(0.0, 0.1)
        elif name.endswith(("scale", "gamma")):
            tensor.uniform_(0.2, 0.6)
        elif tensor.ndim == 1:
            tensor.uniform_(0.8, 1.2)
        elif name.endswith(("embed_sum", "embedding_sum", "embedding.weight")) or "codec_embedding" in name:
            tensor.normal_(0.0, 0.6)
        else:
            gain = 4.0 if "head" in name else 0.6 if name.startswith("decoder.decoder.") else 1.2
            tensor.normal_(0.0, gain / tensor[0].numel() ** 0.5)
    vocoder_end = max((name for name in network.state_dict() if name.startswith("decoder.decoder.")), default=None)
    if vocoder_end is not None:
        network.state_dict()[vocoder_end].mul_(0.6)


def _model_config(stream: np.random.RandomState, mode: str, codebook: int) -> dict[str, Any]:
    first = codebook + int(stream.randint(0, 20))
    numbers = (first + stream.permutation(1000)[:40]).tolist()
    ids = special_ids(TOKENS, SPECIALS)
    hidden = int(stream.choice([32, 48, 64, 80]))
    named = mode == "custom_voice"
    talker = {
        **_stack(stream, hidden),
        "vocab_size": codebook + 1024,
        "num_code_groups": 16,
        "text_hidden_size": int(stream.choice([40, 64])),
        "text_vocab_size": len(vocabulary(TOKENS)) + len(SPECIALS) + int(stream.randint(0, 30)),
        "rope_scaling": {"interleaved": True, "mrope_section": [4, 2, 2], "rope_type": "default"},
        "codec_language_id": {"chinese": numbers[0], "english": numbers[1], "dutch": numbers[2]}
        | ({"wu_dialect": numbers[3]} if named else {}),
        "spk_id": {"zoe": numbers[4], "max": numbers[5]} if named else {},
        "spk_is_dialect": {"zoe": False, "max": "wu_dialect"} if named else {},
        "code_predictor_config": {
            **_stack(stream, int(stream.choice([hidden, 40]))),
            "vocab_size": codebook,
            "num_code_groups": 16,
        },
    }
    for name, number in zip(
        ("eos_token", "think", "nothink", "think_bos", "think_eos", "pad", "bos"), numbers[10:], strict=False
    ):
        talker[f"codec_{name}_id"] = number
    return {
        "talker_config": talker,
        "speaker_encoder_config": {
            "enc_dim": hidden,
            "enc_channels": [16, 16, 16, 32],
            "enc_kernel_sizes": [5, 3, 3, 1],
            "enc_dilations": [1, 2, 3, 1],
            "enc_attention_channels": 8,
            "enc_res2net_scale": 4,
            "enc_se_channels": 8,
        },
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": "1b7",
        "tts_model_type": mode,
        "im_start_token_id": ids["<|im_start|>"],
        "im_end_token_id": ids["<|im_end|>"],
        "tts_pad_token_id": ids["<tts_pad>"],
        "tts_bos_token_id": ids["<tts_text_bos>"],
        "tts_eos_token_id": ids["<tts_text_eod>"],
        "assistant_token_id": vocabulary(TOKENS)["assistant"],
    }


def _stack(stream: np.random.RandomState, hidden: int) -> dict[str, Any]:
    kv_heads = int(stream.choice([1, 2]))
    return {
        "hidden_size": hidden,
        "intermediate_size": int(stream.choice([72, 96])),
        "num_hidden_layers": int(stream.choice([1, 2, 3])),
        "num_attention_heads": kv_heads * int(stream.choice([1, 2])),
        "num_key_value_heads": kv_heads,
        "head_dim": 16,
        "rope_theta": float(stream.choice([10_000, 1_000_000])),
    }


def _tokenizer_config(stream: np.random.RandomState, codebook: int) -> dict[str, Any]:
    heads = int(stream.choice([2, 4]))
    return {
        "decoder_config": {
            "codebook_size": codebook,
            "codebook_dim": 24,
            "hidden_size": 32,
            "latent_dim": 20,
            "intermediate_size": 40,
            "num_hidden_layers": int(stream.choice([1, 2])),
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "head_dim": 8,
            "sliding_window": int(stream.choice([5, 12, 72])),
            "decoder_dim": 48,
        },
        "encoder_config": {
            "codebook_size": codebook,
            "codebook_dim": 12,
            "vector_quantization_hidden_dimension": 12,
            "hidden_size": 32,
            "upsample_groups": 32,
            "num_filters": 4,
            "intermediate_size": 40,
            "num_hidden_layers": int(stream.choice([1, 2])),
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
        },
    }
