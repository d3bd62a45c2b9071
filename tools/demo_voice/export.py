"""Stage 6 of the voice training: export of the networks in the published layout.

Run: python export.py --codec work/codec.pt --lm work/lm.pt --out ../../assets/demo-voice

The configuration is copied from the shipped voice, except the ids of the text vocabulary.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from codec_model import Codec
from config import VOICE, WORK
from lm_model import read_voice
from text_vocabulary import TextVocabulary


def speech_tensors(codec: Codec) -> dict[str, Tensor]:
    """Return the speech tokenizer's tensors under their published names.

    The projections that the runtime does not use are pseudo-inverses.
    """
    q = codec.quantizer
    codec.fold()
    out = {k: t for k, t in codec.state_dict().items() if not k.startswith("quantizer.")}
    # With a BatchNorm, the latents grow without bound, and the weights of the projections are small. Both are rescaled,
    # because in half precision they must be near one.
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
            ours, theirs = f"{encoder}.layers.{i}.codebook", f"{decoder}.vq.layers.{i}._codebook"
            out[f"{ours}.initialized"] = torch.ones(1)
            out[f"{ours}.embed_sum"] = out[f"{theirs}.embedding_sum"] = table
            out[f"{ours}.cluster_usage"] = out[f"{theirs}.cluster_usage"] = torch.ones(len(table))
    return out


def write(tensors: dict[str, Tensor], path: Path) -> None:
    made = {k: t.detach().half().contiguous().clone() for k, t in tensors.items()}
    if bad := [k for k, t in made.items() if not t.isfinite().all()]:
        raise SystemExit(f"not finite in half precision: {bad}")
    save_file(made, path, metadata={"format": "pt"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codec", type=Path, default=WORK / "codec.pt")
    parser.add_argument("--lm", type=Path, default=WORK / "lm.pt")
    parser.add_argument("--out", type=Path, default=VOICE)
    args = parser.parse_args()
    t, speech = TextVocabulary.read(WORK), args.out / "speech_tokenizer"
    speech.mkdir(parents=True, exist_ok=True)
    for file in ("generation_config.json", "speech_tokenizer/config.json", "speech_tokenizer/preprocessor_config.json"):
        (args.out / file).write_bytes((VOICE / file).read_bytes())
    config = json.loads((VOICE / "config.json").read_text()) | {
        "assistant_token_id": t.assistant, "im_start_token_id": t.im_start, "im_end_token_id": t.im_end,
        "tts_pad_token_id": t.pad, "tts_bos_token_id": t.bos, "tts_eos_token_id": t.eos,
    }  # fmt: skip
    config["talker_config"]["text_vocab_size"] = t.rows
    (args.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    with torch.no_grad():
        write(speech_tensors(Codec.load(args.codec, torch.device("cpu"))), speech / "model.safetensors")
    write(read_voice(args.lm), args.out / "model.safetensors")
    t.write(args.out)
    print(sum(p.stat().st_size for p in args.out.rglob("*") if p.is_file()) / 1e6, "MB")


if __name__ == "__main__":
    main()
