"""Precomputed embeddings that depend on an id alone, for lookups in a frame."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

PART = 8192  # Ids of a text table projected at once.


@dataclass(frozen=True, slots=True)
class Tables:
    """Embedding tables of a checkpoint.

    Shapes: text [text_vocab, H]; codec [talker_vocab + 1, H], the last row empty; frames [Q, V, H], codes of each
    codebook in the talker's width; first [talker_vocab, H'] and rest [Q - 1, V, H'] in the code predictor's.
    """

    text: Tensor
    codec: Tensor
    frames: Tensor
    first: Tensor
    rest: Tensor

    def of(self, codebook: int) -> Tensor:
        """Return a codebook's codes in the code predictor's width. Shapes: result [V, H']."""
        return self.first if codebook == 0 else self.rest[codebook - 1]


@torch.inference_mode()
def tabulate(text: Tensor, text_projection: torch.nn.Module, codec: list[Tensor], small: torch.nn.Module) -> Tables:
    """Project every row of the published tables.

    Shapes: text [text_vocab, text_width]; codec: [talker_vocab, H], then [V, H] of each code group after the first.
    """
    codes = len(codec[1])
    return Tables(
        text=torch.cat([text_projection(part) for part in torch.split(text, PART)]),
        codec=torch.cat((codec[0], torch.zeros_like(codec[0][:1]))),
        frames=torch.stack([table[:codes] for table in codec]),
        first=small(codec[0]),
        rest=torch.stack([small(table) for table in codec[1:]]),
    )
