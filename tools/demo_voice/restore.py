"""Convert an exported checkpoint to files from which the training can continue.

Run: python restore.py   (writes work/codec.pt, work/lm.pt and work/merges.txt)
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from checkpoints import read_voice, save_voice
from codec_model import Codec
from config import CONFIG, HERE


def without_books(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Convert exported speech tokenizer tensors to the names of `Codec`, without codebooks."""
    state = {k: t for k, t in tensors.items() if ".quantizer." not in k}
    inputs = []
    for name, short in (("semantic", "first"), ("acoustic", "rest")):
        inputs.append(tensors[f"encoder.quantizer.{name}_residual_vector_quantizer.input_proj.weight"])
        state[f"quantizer.{short}_out.weight"] = tensors[f"decoder.quantizer.rvq_{short}.output_proj.weight"]
    return state | {"quantizer.input_proj.weight": torch.cat(inputs)}


def codec_state(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Convert exported speech tokenizer tensors to a state dict of `Codec`."""
    books = [("first", 0), *(("rest", i) for i in range(CONFIG["codec"]["codebooks"] - 1))]
    tables = [tensors[f"decoder.quantizer.rvq_{name}.vq.layers.{i}._codebook.embedding_sum"] for name, i in books]
    state = Codec(CONFIG["codec"]).state_dict() | without_books(tensors)
    state["quantizer.sums"] = torch.stack(tables)
    state["quantizer.usage"] = torch.ones_like(state["quantizer.usage"])
    state["quantizer.active"] = torch.ones(())
    return state


def read_speech(source: Path) -> dict[str, Tensor]:
    """Return the float32 tensors of the speech tokenizer in an exported folder."""
    return {k: t.float() for k, t in load_file(source / "speech_tokenizer" / "model.safetensors").items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, default=HERE.parents[1] / "assets" / "demo-voice")
    parser.add_argument("--out", type=Path, default=HERE / CONFIG["paths"]["work"])
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    voice, vocabulary = read_voice(args.source)
    save_voice(voice, vocabulary, args.out / "lm.pt")
    vocabulary.write_merges(args.out / "merges.txt")
    torch.save({"codec": codec_state(read_speech(args.source)), "folded": True}, args.out / "codec.pt")


if __name__ == "__main__":
    main()
