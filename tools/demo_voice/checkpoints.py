"""Weight files of trained networks, and conversion of an exported voice to such files.

Run: python checkpoints.py   (writes work/codec.pt, work/lm.pt and work/merges.txt)
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from codec_model import Codec
from config import CONFIG, VOICE, WORK
from lm_model import Voice
from text_vocabulary import TextVocabulary

State = dict[str, Tensor]


def save(value: dict, path: Path) -> None:
    """Save `value` with `torch.save`, and replace the file atomically."""
    temporary = path.with_suffix(".tmp")
    torch.save(value, temporary)
    temporary.rename(path)


def new_voice(vocabulary: TextVocabulary) -> Voice:
    return Voice(vocabulary.rows)


def save_voice(state: State, vocabulary: TextVocabulary, path: Path) -> None:
    """Write the weights and BPE merges of a voice to a file that `read_voice` can read."""
    save({"voice": state, "merges": [list(pair) for pair in vocabulary.merges]}, path)


def read_voice(path: Path) -> tuple[State, TextVocabulary]:
    """Return the weights and the vocabulary of a voice.

    Args:
        path: File that `save_voice` has written, or folder of an exported voice.
    """
    if path.is_dir():
        tensors = load_file(path / "model.safetensors")
        return {k: t.float() for k, t in tensors.items()}, TextVocabulary.read(path / "merges.txt")
    state = torch.load(path, map_location="cpu", weights_only=True)
    return state["voice"], TextVocabulary(tuple((a, b) for a, b in state["merges"]))


def save_codec(codec: Codec, path: Path) -> None:
    save({"codec": codec.state_dict(), "folded": codec.quantizer.folded}, path)


def load_codec(path: Path, device: torch.device) -> Codec:
    """Return the speech tokenizer from a file or a folder, in evaluation mode.

    Args:
        path: File that `save_codec` has written, or folder of an exported voice.
    """
    codec = Codec().to(device)
    if path.is_dir():
        state = {"codec": codec.state_dict() | exported_codec(path, with_books=True), "folded": True}
    else:
        state = torch.load(path, map_location=device, weights_only=True)
    codec.load_state_dict(state["codec"])
    codec.quantizer.folded = state["folded"]
    return codec.eval()


def exported_codec(source: Path, with_books: bool) -> State:
    """Return the float32 tensors of an exported speech tokenizer, keyed by name in `Codec`."""
    tensors = {k: t.float() for k, t in load_file(source / "speech_tokenizer" / "model.safetensors").items()}
    state = {k: t for k, t in tensors.items() if ".quantizer." not in k}
    name = "encoder.quantizer.{}_residual_vector_quantizer.input_proj.weight"
    state["quantizer.input_proj.weight"] = torch.cat([tensors[name.format(x)] for x in ("semantic", "acoustic")])
    for name in ("first", "rest"):
        state[f"quantizer.{name}_out.weight"] = tensors[f"decoder.quantizer.rvq_{name}.output_proj.weight"]
    if with_books:
        books = ["first.vq.layers.0", *(f"rest.vq.layers.{i}" for i in range(CONFIG["codec"]["codebooks"] - 1))]
        tables = [tensors[f"decoder.quantizer.rvq_{book}._codebook.embedding_sum"] for book in books]
        state["quantizer.sums"], state["quantizer.active"] = torch.stack(tables), torch.ones(())
        state["quantizer.usage"] = torch.ones(state["quantizer.sums"].shape[:2])
    return state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, default=VOICE)
    parser.add_argument("--out", type=Path, default=WORK)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    voice, vocabulary = read_voice(args.source)
    save_voice(voice, vocabulary, args.out / "lm.pt")
    vocabulary.write_merges(args.out / "merges.txt")
    save_codec(load_codec(args.source, torch.device("cpu")), args.out / "codec.pt")


if __name__ == "__main__":
    main()
