"""Stage 6: export the trained networks as a checkpoint in the published layout.

Run: python export.py --codec work/codec.pt --lm work/lm.pt --out ../../assets/demo-voice
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

import vocabulary as v
from checkpoints import read_voice
from codec_model import encoder_config
from config import CONFIG, HERE
from lm_model import speaker_config
from prompts import SPEAKERS
from text_vocabulary import TextVocabulary
from train_codec import load

MODES = ["custom_voice", "voice_design", "base"]
LAYOUTS = ["non_streaming", "streaming"]
# Speakers in the order of the page. The first and default speaker is the most intelligible speaker. OpenAI's
# voice names (`VOICE_ALIASES` of the runtime) select speakers in this order, which matches the sex of most of them.
SHOWN = {name: SPEAKERS[name] for name in ("angus", "clara", "owen", "iris", "reed", "nora", "mia", "bruno")}


def layers_config(hidden: int, ffn: int, layers: int, vocab: int) -> dict:
    """Return the configuration entries that the talker and the code predictor have in common."""
    lm = CONFIG["lm"]
    return {
        "attention_bias": False, "attention_dropout": 0, "head_dim": lm["head_dim"], "hidden_act": "silu",
        "hidden_size": hidden, "initializer_range": 0.02, "intermediate_size": ffn,
        "num_attention_heads": lm["heads"], "num_code_groups": CONFIG["codec"]["codebooks"],
        "num_hidden_layers": layers, "num_key_value_heads": lm["kv_heads"], "rms_norm_eps": 1e-6,
        "rope_theta": lm["rope_theta"], "sliding_window": None, "use_cache": True, "use_sliding_window": False,
        "vocab_size": vocab,
    }  # fmt: skip


def model_config(t: TextVocabulary) -> dict:
    """Return the content of config.json."""
    lm = CONFIG["lm"]
    predictor = layers_config(lm["hidden"], lm["predictor_ffn"], lm["predictor_layers"], v.CODES) | {
        "model_type": "qwen3_tts_talker_code_predictor", "rope_scaling": None, "max_position_embeddings": 65536,
        "max_length": 20, "repetition_penalty": 1.0, "tie_word_embeddings": False,
        "layer_types": ["full_attention"] * lm["predictor_layers"],
    }  # fmt: skip
    talker = layers_config(lm["hidden"], lm["ffn"], lm["layers"], v.CODEC_VOCAB) | {
        "model_type": "qwen3_tts_talker", "code_predictor_config": predictor,
        "codec_bos_id": v.CODEC_BOS, "codec_eos_token_id": v.CODEC_EOS, "codec_pad_id": v.CODEC_PAD,
        "codec_think_id": v.THINK, "codec_nothink_id": v.NOTHINK, "codec_think_bos_id": v.THINK_BOS,
        "codec_think_eos_id": v.THINK_EOS, "codec_language_id": {"english": v.ENGLISH},
        "spk_id": SHOWN, "spk_is_dialect": dict.fromkeys(SHOWN, False),
        "max_position_embeddings": 4096, "position_id_per_seconds": 13, "pad_token_id": v.CODEC_PAD,
        "rope_scaling": {"interleaved": True, "mrope_section": [12, 10, 10], "rope_type": "default", "type": "default"},
        "text_hidden_size": lm["text_dim"], "text_vocab_size": t.rows,
    }  # fmt: skip
    return {
        "architectures": ["Qwen3TTSForConditionalGeneration"], "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz", "tts_model_size": "demo", "tts_model_type": MODES[0],
        "assistant_token_id": t.assistant, "im_start_token_id": t.im_start, "im_end_token_id": t.im_end,
        "tts_pad_token_id": t.pad, "tts_bos_token_id": t.bos, "tts_eos_token_id": t.eos,
        "talker_config": talker,
        "speaker_encoder_config": asdict(speaker_config(lm)),
        "voicewright_modes": MODES, "voicewright_layouts": LAYOUTS,
        "voicewright_part_chars": CONFIG["text"]["part_chars"],
        "voicewright_alphabet": "ascii",  # The training text has only the characters of text.PLAIN.
        "transformers_version": "4.57.3",
    }  # fmt: skip


def speech_config() -> dict:
    """Return the content of speech_tokenizer/config.json."""
    c = CONFIG["codec"]
    common = {"attention_bias": False, "attention_dropout": 0.0, "rope_theta": 10000, "max_position_embeddings": 8000,
              "codebook_size": c["codebook_size"], "num_quantizers": c["codebooks"],
              "num_semantic_quantizers": 1}  # fmt: skip
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"], "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_valid_num_quantizers": c["codebooks"], "input_sample_rate": 24000, "output_sample_rate": 24000,
        "encode_downsample_rate": 1920, "decode_upsample_rate": 1920,
        "decoder_config": common | {
            "codebook_dim": 2 * c["vq_dim"], "semantic_codebook_size": c["codebook_size"],
            "latent_dim": c["latent_dim"], "hidden_size": c["decoder_hidden"], "intermediate_size": c["decoder_ffn"],
            "num_hidden_layers": c["decoder_layers"], "num_attention_heads": c["decoder_heads"],
            "num_key_value_heads": c["decoder_heads"], "head_dim": c["decoder_hidden"] // c["decoder_heads"],
            "sliding_window": c["decoder_window"], "rms_norm_eps": 1e-5, "hidden_act": "silu",
            "layer_scale_initial_scale": 0.01, "decoder_dim": c["decoder_dim"], "upsample_rates": [8, 5, 4, 3],
            "upsampling_ratios": [2, 2],
        },
        "encoder_config": common | asdict(encoder_config(c)) | {
            "model_type": "mimi", "sampling_rate": 24000, "sliding_window": 250, "layer_scale_initial_scale": 0.01,
            "upsample_groups": c["encoder_hidden"], "frame_rate": 12.5, "_frame_rate": 12.5,
        },
    }  # fmt: skip


def speech_tensors(codec: torch.nn.Module) -> dict[str, Tensor]:
    """Return the speech tokenizer's tensors under their published names.

    The projections that the runtime does not use are pseudo-inverses.
    """
    q = codec.quantizer
    codec.fold()
    out = {}
    for side in ("encoder", "decoder"):
        out |= {f"{side}.{k}": t for k, t in getattr(codec, side).state_dict().items()}
    # The latents are large, and the weights of the projections are small. In half precision, both must be near one.
    scale = q.input_proj.weight.abs().mean() * q.input_proj.weight.shape[1] ** 0.5
    out["encoder.downsample.conv.weight"] = out["encoder.downsample.conv.weight"] * scale
    inputs, tables = q.input_proj.weight[..., 0] / scale, q.tables
    branches = (("semantic", "first", inputs[: q.dim], q.first_out.weight[..., 0], tables[:1]),
                ("acoustic", "rest", inputs[q.dim :], q.rest_out.weight[..., 0], tables[1:]))  # fmt: skip
    for name, short, into, outof, books in branches:
        encoder, decoder = f"encoder.quantizer.{name}_residual_vector_quantizer", f"decoder.quantizer.rvq_{short}"
        out[f"{encoder}.input_proj.weight"] = into[..., None]
        out[f"{encoder}.output_proj.weight"] = torch.linalg.pinv(into)[..., None]
        out[f"{decoder}.output_proj.weight"] = outof[..., None]
        out[f"{decoder}.input_proj.weight"] = torch.linalg.pinv(outof)[..., None]
        for i, table in enumerate(books):
            usage = torch.ones(len(table))
            out[f"{encoder}.layers.{i}.codebook.initialized"] = torch.ones(1)
            out[f"{encoder}.layers.{i}.codebook.cluster_usage"] = usage
            out[f"{encoder}.layers.{i}.codebook.embed_sum"] = table
            out[f"{decoder}.vq.layers.{i}._codebook.cluster_usage"] = usage
            out[f"{decoder}.vq.layers.{i}._codebook.embedding_sum"] = table
    return out


def write(tensors: dict[str, Tensor], path: Path, dtype: torch.dtype) -> None:
    made = {k: t.detach().to(dtype).contiguous().clone() for k, t in tensors.items()}
    bad = [k for k, t in made.items() if not t.float().isfinite().all()]
    if bad:
        raise SystemExit(f"not finite in {dtype}: {bad}")
    save_file(made, path, metadata={"format": "pt"})


def export_speech(codec: torch.nn.Module, folder: Path) -> None:
    """Write the folder speech_tokenizer with its weights and configurations."""
    extractor = {"feature_extractor_type": "EncodecFeatureExtractor", "feature_size": 1, "sampling_rate": 24000,
                 "padding_side": "right", "padding_value": 0.0, "return_attention_mask": True,
                 "chunk_length_s": None, "overlap": None}  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        write(speech_tensors(codec), folder / "model.safetensors", torch.float16)
    write_json(folder / "config.json", speech_config())
    write_json(folder / "preprocessor_config.json", extractor)


def write_json(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")


def export(codec: Path, lm: Path, out: Path) -> None:
    """Write a checkpoint folder from a trained codec and a trained language model.

    Args:
        lm: File that train_lm.py has written, or folder of an exported checkpoint.
    """
    export_speech(load(codec, torch.device("cpu")), out / "speech_tokenizer")
    voice, vocabulary = read_voice(lm)
    write(voice, out / "model.safetensors", torch.float16)
    # Temperatures below the published 0.9 reduce the difference to the teacher's word error rate by about a third.
    generation = {
        "do_sample": True, "repetition_penalty": 1.05, "temperature": 0.5, "top_p": 1.0, "top_k": 50,
        "subtalker_dosample": True, "subtalker_temperature": 0.3, "subtalker_top_p": 1.0, "subtalker_top_k": 50,
        "max_new_tokens": 1024,
    }  # fmt: skip
    write_json(out / "config.json", model_config(vocabulary))
    write_json(out / "generation_config.json", generation)
    vocabulary.write(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    work = HERE / CONFIG["paths"]["work"]
    parser.add_argument("--codec", type=Path, default=work / "codec.pt")
    parser.add_argument("--lm", type=Path, default=work / "lm.pt")
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "assets" / "demo-voice")
    args = parser.parse_args()
    export(args.codec, args.lm, args.out)
    print(sum(p.stat().st_size for p in args.out.rglob("*") if p.is_file()) / 1e6, "MB")


if __name__ == "__main__":
    main()
