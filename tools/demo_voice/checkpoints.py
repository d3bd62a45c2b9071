"""Storage of a trained voice with its text vocabulary, and loading of it or of an exported checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from config import CONFIG
from lm_model import Voice
from text_vocabulary import SPECIALS, TextVocabulary

EMBEDDING = "talker.model.text_embedding.weight"
State = dict[str, Tensor]


def new_voice(vocabulary: TextVocabulary) -> Voice:
    return Voice(CONFIG["lm"], CONFIG["codec"]["codebooks"], vocabulary.rows)


def save_voice(state: State, vocabulary: TextVocabulary, path: Path) -> None:
    """Write a voice for `read_voice` atomically."""
    temporary = path.with_suffix(".tmp")
    torch.save({"voice": state, "merges": [list(pair) for pair in vocabulary.merges]}, temporary)
    temporary.rename(path)


def read_voice(path: Path) -> tuple[State, TextVocabulary]:
    """Read a checkpoint of `save_voice`, or the folder of an exported one."""
    if path.is_dir():
        tensors = load_file(path / "model.safetensors")
        return {k: t.float() for k, t in tensors.items()}, TextVocabulary.read(path / "merges.txt")
    state = torch.load(path, map_location="cpu", weights_only=True)
    return state["voice"], TextVocabulary(tuple((a, b) for a, b in state["merges"]))


def load_voice(path: Path, device: torch.device) -> tuple[Voice, TextVocabulary]:
    """Return a voice ready to speak, and its text vocabulary."""
    state, vocabulary = read_voice(path)
    voice = new_voice(vocabulary)
    voice.load_state_dict(state)
    return voice.to(device).eval(), vocabulary


def moved(state: State, before: TextVocabulary, now: TextVocabulary) -> State:
    """Return the state with its text embedding over other pieces: one that was there keeps its row, a new one begins
    as the sum of the pieces that it was spelled with, no longer than these are.
    """
    old, rows = state[EMBEDDING], torch.zeros(now.rows, state[EMBEDDING].shape[1])
    for name, row in now.pieces.items():
        parts = torch.stack([old[before.pieces[piece]] for piece in _spelled(name, before)])
        rows[row] = parts.sum(0) / len(parts) ** 0.5
    for name in SPECIALS:
        rows[now.specials[name]] = old[before.specials[name]]
    return state | {EMBEDDING: rows}


def _spelled(name: str, vocabulary: TextVocabulary) -> list[str]:
    """Return the vocabulary's pieces of a piece that is written in the letters of bytes."""
    return [token.value for token in vocabulary.tokenizer().model.tokenize(name)]
