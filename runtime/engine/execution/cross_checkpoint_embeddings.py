"""Embedding tables of another checkpoint for the inputs of some rows of a batch.

Such a row uses the other checkpoint's embeddings of text and of code 0. Layers, heads and all other embeddings belong
to the checkpoint that serves the request (docs/model.md 4.1). Fused operations read the embedding tables of each slot
by address, in graphs too. Therefore such a row takes no additional time. `CrossCheckpointEmbeddings` is the reference
implementation, for devices without fused operations. On these devices, a batch with such a row runs without a graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from runtime.engine.execution.slots import SlotCache
from runtime.model.talker import Talker


class InputTables(NamedTuple):
    """Embedding tables for the inputs of a slot.

    Keep a reference to this object while a slot uses the addresses of the tables.

    Shapes: codec [V, H] for code 0; text [text_vocab, H]; first [V, H'] for code 0 in the code predictor's hidden size.
    """

    codec: Tensor
    text: Tensor
    first: Tensor

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Return the addresses of the three tables in device memory."""
        return self.codec.data_ptr(), self.text.data_ptr(), self.first.data_ptr()


@dataclass(frozen=True, slots=True)
class CrossCheckpointEmbeddings:
    """Embeddings for the rows of a batch that use the tables of another checkpoint.

    Shapes: at [g] int64, indices of these rows in the batch.
    """

    talker: Talker
    embedding_source: Talker
    at: Tensor

    def embed_inputs(self, x: Tensor, rows: Tensor, slot_cache: SlotCache) -> None:
        """Replace the rows `self.at` of the talker's input `x`.

        The new values use the other checkpoint's embeddings of text and of code 0.

        Shapes: x [B, H]; rows [B] int64, slot numbers.
        """
        slots = rows[self.at]
        codes = slot_cache.codes[slots]
        # The talker that embeds the codes may have another dtype.
        first = self.embedding_source.embed_codec(codes[:, 0]).to(x.dtype)
        text = self.embedding_source.embed_text(slot_cache.trailing[slots, slot_cache.frame[slots] - 1]).to(x.dtype)
        x[self.at] = self.talker.code_predictor.embed_with(first, codes).sum(-2) + text

    def embed_first_code(self, x: Tensor, codes: Tensor) -> None:
        """Replace the rows `self.at` of `x`, the code predictor's embeddings of code 0.

        The new values are the other checkpoint's embeddings, projected to the code predictor's hidden size.

        Shapes: x [B, H'], strided; codes [B] int64.
        """
        first = self.embedding_source.embed_codec(codes[self.at]).to(x.dtype)
        x[self.at] = self.talker.code_predictor.project(first)
