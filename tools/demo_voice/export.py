"""Stage 6: export of the trained networks as a checkpoint in the published layout.

Run: python export.py --codec work/codec.pt --lm work/lm.pt --out ../../assets/demo-voice

Constants of the published layout and the sampling settings are copied from the shipped voice.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

import vocabulary as v
from checkpoints import load_codec, read_voice
from config import CONFIG, VOICE, WORK
from prompts import SPEAKERS
from text_vocabulary import TextVocabulary

# Speakers in the order of the page. The first and default speaker is the most intelligible speaker. OpenAI's
# voice names (`VOICE_ALIASES` of the runtime) select speakers in this order, which matches the sex of most of them.
SHOWN = {name: SPEAKERS[name] for name in ("angus", "clara", "owen", "iris", "reed", "nora", "mia", "bruno")}


def model_config(shipped: dict, t: TextVocabulary) -> dict:
    """Return the content of config.json."""
    books, layers = CONFIG["codec"]["codebooks"], CONFIG["code_predictor"]["num_hidden_layers"]
    predictor = shipped["talker_config"]["code_predictor_config"] | CONFIG["code_predictor"] | {
        "layer_types": ["full_attention"] * layers, "num_code_groups": books, "vocab_size": v.CODES,
    }  # fmt: skip
    return shipped | {
        "assistant_token_id": t.assistant, "im_start_token_id": t.im_start, "im_end_token_id": t.im_end,
        "tts_pad_token_id": t.pad, "tts_bos_token_id": t.bos, "tts_eos_token_id": t.eos,
        "talker_config": shipped["talker_config"] | CONFIG["talker"] | {
            "code_predictor_config": predictor, "num_code_groups": books, "vocab_size": v.CODEC_VOCAB,
            "codec_bos_id": v.CODEC_BOS, "codec_eos_token_id": v.CODEC_EOS, "codec_pad_id": v.CODEC_PAD,
            "codec_think_id": v.THINK, "codec_nothink_id": v.NOTHINK, "codec_think_bos_id": v.THINK_BOS,
            "codec_think_eos_id": v.THINK_EOS, "codec_language_id": {"english": v.ENGLISH},
            "spk_id": SHOWN, "spk_is_dialect": dict.fromkeys(SHOWN, False), "pad_token_id": v.CODEC_PAD,
            "text_vocab_size": t.rows,
        },
        "speaker_encoder_config": shipped["speaker_encoder_config"] | CONFIG["speaker_encoder"],
        "voicewright_part_chars": CONFIG["text"]["part_chars"],
    }  # fmt: skip


def speech_config(shipped: dict) -> dict:
    """Return the content of speech_tokenizer/config.json."""
    books, size = CONFIG["codec"]["codebooks"], CONFIG["codec"]["codebook_size"]
    sizes = {"codebook_size": size, "num_quantizers": books}
    decoder, hidden = {"semantic_codebook_size": size}, CONFIG["encoder"]["hidden_size"]
    extra = {"decoder": decoder, "encoder": {"upsample_groups": hidden}}
    sides = {f"{side}_config": shipped[f"{side}_config"] | CONFIG[side] | sizes | extra[side] for side in extra}
    return shipped | {"encoder_valid_num_quantizers": books} | sides


def speech_tensors(codec: torch.nn.Module) -> dict[str, Tensor]:
    """Return the speech tokenizer's tensors under their published names.

    The projections that the runtime does not use are pseudo-inverses.
    """
    q = codec.quantizer
    codec.fold()
    out = {k: t for k, t in codec.state_dict().items() if not k.startswith("quantizer.")}
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


def write(tensors: dict[str, Tensor], path: Path) -> None:
    made = {k: t.detach().half().contiguous().clone() for k, t in tensors.items()}
    if bad := [k for k, t in made.items() if not t.isfinite().all()]:
        raise SystemExit(f"not finite in half precision: {bad}")
    save_file(made, path, metadata={"format": "pt"})


def export(codec: Path, lm: Path, out: Path) -> None:
    """Write a checkpoint folder from a trained codec and a trained language model.

    Args:
        lm: File that train_lm.py has written, or folder of an exported checkpoint.
    """
    voice, vocabulary = read_voice(lm)
    files = ("config.json", "generation_config.json", "speech_tokenizer/config.json",
             "speech_tokenizer/preprocessor_config.json")  # fmt: skip
    contents = {file: json.loads((VOICE / file).read_text()) for file in files}
    contents["config.json"] = model_config(contents["config.json"], vocabulary)
    contents["speech_tokenizer/config.json"] = speech_config(contents["speech_tokenizer/config.json"])
    (out / "speech_tokenizer").mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        (out / file).write_text(json.dumps(content, indent=2) + "\n")
    with torch.no_grad():
        write(speech_tensors(load_codec(codec, torch.device("cpu"))), out / "speech_tokenizer" / "model.safetensors")
    write(voice, out / "model.safetensors")
    vocabulary.write(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codec", type=Path, default=WORK / "codec.pt")
    parser.add_argument("--lm", type=Path, default=WORK / "lm.pt")
    parser.add_argument("--out", type=Path, default=VOICE)
    args = parser.parse_args()
    export(args.codec, args.lm, args.out)
    print(sum(p.stat().st_size for p in args.out.rglob("*") if p.is_file()) / 1e6, "MB")


if __name__ == "__main__":
    main()
