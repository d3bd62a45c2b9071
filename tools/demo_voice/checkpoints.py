"""Functions that save and load the weights of a trained voice and its text vocabulary."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from config import CONFIG
from lm_model import Voice
from text_vocabulary import TextVocabulary

State = dict[str, Tensor]


def new_voice(vocabulary: TextVocabulary) -> Voice:
    return Voice(CONFIG["lm"], CONFIG["codec"]["codebooks"], vocabulary.rows)


def save_voice(state: State, vocabulary: TextVocabulary, path: Path) -> None:
    """Write the weights and the merges of a voice atomically, in the format of `read_voice`."""
    temporary = path.with_suffix(".tmp")
    torch.save({"voice": state, "merges": [list(pair) for pair in vocabulary.merges]}, temporary)
    temporary.rename(path)


def read_voice(path: Path) -> tuple[State, TextVocabulary]:
    """Return the weights and the vocabulary from a file of `save_voice` or an exported folder."""
    if path.is_dir():
        tensors = load_file(path / "model.safetensors")
        return {k: t.float() for k, t in tensors.items()}, TextVocabulary.read(path / "merges.txt")
    state = torch.load(path, map_location="cpu", weights_only=True)
    return state["voice"], TextVocabulary(tuple((a, b) for a, b in state["merges"]))
