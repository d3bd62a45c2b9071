"""Inputs that another checkpoint embeds for some rows of a batch: text, and code 0 of their frames.

Layers, heads and the other codebooks stay the checkpoint's own (docs/model.md 4.1). Fused operations know the tables
of each slot by their addresses, in graphs too, and cross-embedded rows cost them nothing. `CrossCheckpointEmbeddings`
is their readable twin for devices without fused operations. A batch with such a row runs without a graph there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from runtime.engine.execution.slots import SlotCache
from runtime.model.talker import Talker


class InputTables(NamedTuple):
    """Lookup tables for the inputs of a slot; holding this object keeps the tables alive.

    Shapes: codec [V, H], codes 0; text [text_vocab, H]; first [V, H'], codes 0 in the code predictor's width.
    """

    codec: Tensor
    text: Tensor
    first: Tensor

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Return the tables' addresses in device memory."""
        return self.codec.data_ptr(), self.text.data_ptr(), self.first.data_ptr()


@dataclass(frozen=True, slots=True)
class CrossCheckpointEmbeddings:
    """Rows of a batch, and the talker that embeds their inputs. Shapes: at [g] int64, places in the batch."""

    talker: Talker
    embedding_source: Talker
    at: Tensor

    def embed_inputs(self, x: Tensor, rows: Tensor, slot_cache: SlotCache) -> None:
        """Write the next inputs of these rows over their own. Shapes: x [B, H]; rows [B] int64, slots."""
        slots = rows[self.at]
        codes = slot_cache.codes[slots]
        # The embedding source may have another dtype.
        first = self.embedding_source.embed_codec(codes[:, 0]).to(x.dtype)
        text = self.embedding_source.embed_text(slot_cache.trailing[slots, slot_cache.frame[slots] - 1]).to(x.dtype)
        x[self.at] = self.talker.code_predictor.embed_with(first, codes).sum(-2) + text

    def embed_first_code(self, x: Tensor, codes: Tensor) -> None:
        """The same for code 0 where the code predictor reads it. Shapes: x [B, H'], rows apart; codes [B] int64."""
        first = self.embedding_source.embed_codec(codes[self.at]).to(x.dtype)
        x[self.at] = self.talker.code_predictor.project(first)
