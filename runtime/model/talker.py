"""Talker network, which generates code 0 and the hidden state of each frame.

The inputs are the text and the codes of earlier frames. The network is described in docs/model.md 2.1, 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from runtime.model.code_predictor import CodePredictor
from runtime.model.config import ModelConfig, TalkerConfig
from runtime.model.layers import AttentionFunction, DecoderStack, Operations
from runtime.model.products import Linear, MappedEmbedding, silu

PROJECTED_IDS = 8192  # Number of text ids whose embeddings are projected at once.

NO_CODEC = -1


class TextProjection(nn.Module):
    """Projection of text embeddings to the talker's hidden size: fc2(silu(fc1(x)))."""

    def __init__(self, text_width: int, width: int) -> None:
        super().__init__()
        self.linear_fc1 = Linear(text_width, text_width)
        self.linear_fc2 = Linear(text_width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_fc2(silu(self.linear_fc1(x)))


class TalkerDecoder(DecoderStack):
    """Decoder of the talker, with the text and codec embedding tables.

    Codec ids include special tokens, languages and speakers.
    """

    def __init__(self, config: TalkerConfig) -> None:
        super().__init__(config)
        self.text_embedding = MappedEmbedding(config.text_vocab_size, config.text_hidden_size)
        self.codec_embedding = MappedEmbedding(config.vocab_size, config.hidden_size)


class Talker(nn.Module):
    """Talker and code predictor of a checkpoint, with the key prefix ``talker.``."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config.talker
        self.model = TalkerDecoder(config.talker)
        self.text_projection = TextProjection(config.talker.text_hidden_size, config.talker.hidden_size)
        self.codec_head = Linear(config.talker.hidden_size, config.talker.vocab_size, bias=False)
        self.code_predictor = CodePredictor(config.predictor, config.talker.hidden_size)
        self.tables: EmbeddingTables | None = None

    def tabulate(self) -> None:
        """Precompute the projected embeddings of all ids, and release the text embedding table."""
        codec = [self.model.codec_embedding, *self.code_predictor.model.codec_embedding]
        self.tables = tabulate(
            self.model.text_embedding.rows,
            self.text_projection,
            [table.rows for table in codec],
            self.code_predictor.small_to_mtp_projection,
        )
        self.model.text_embedding.weight = nn.Parameter(self.tables.text[:0], requires_grad=False)

    def embed_text(self, ids: Tensor) -> Tensor:
        """Return the embeddings of text ids: T(x) in docs/model.md.

        Shapes: ids [...] int64; result [..., H].
        """
        if self.tables is not None:
            return self.tables.text[ids]
        return self.text_projection(self.model.text_embedding(ids))

    def embed_codec(self, ids: Tensor) -> Tensor:
        """Return the embeddings of codec ids (codes 0, special tokens, languages, speakers).

        Shapes: ids [...] int64; result [..., H].
        """
        return self.model.codec_embedding(ids)

    def embed_codec_or_none(self, ids: Tensor) -> Tensor:
        """Return the embeddings of codec ids, where the id NO_CODEC gives zeros.

        Shapes: ids [...] int64; result [..., H].
        """
        if self.tables is not None:
            return self.tables.codec[ids]
        return self.embed_codec(ids.clamp(min=0)).masked_fill((ids == NO_CODEC)[..., None], 0)

    @torch.inference_mode()
    def codec_vector(self, code: int) -> NDArray[np.float32]:
        """Return the embedding of one codec id, such as a speaker, as a NumPy array.

        Shapes: result [H].
        """
        return self.embed_codec_or_none(torch.tensor([code], device=self.device))[0].float().cpu().numpy()

    def embed_code(self, codebook: int, codes: Tensor) -> Tensor:
        """Return the embeddings of one codebook's codes in the code predictor's hidden size.

        Shapes: codes [B] int64; result [B, H'].
        """
        if self.tables is not None:
            return self.tables.of(codebook)[codes]
        predictor = self.code_predictor
        table = self.model.codec_embedding if codebook == 0 else predictor.model.codec_embedding[codebook - 1]
        return predictor.project(table(codes))

    def embed_frames(self, codes: Tensor) -> Tensor:
        """Return the embedding of each frame, the sum of the code embeddings (docs/model.md 4).

        Shapes: codes [..., Q] int64; result [..., H].
        """
        return self.code_predictor.embed_with(self.embed_codec(codes[..., 0]), codes).sum(-2)

    @property
    def device(self) -> torch.device:
        """Return the device of the talker.

        The norm's weight is used, because the empty weight of a quantized layer may be on another device.
        """
        return self.model.norm.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Return the dtype of the hidden states."""
        return self.codec_head.weight.dtype

    def decode(self, x: Tensor, attend: AttentionFunction, ops: Operations) -> Tensor:
        """Return the hidden states of new positions before the final norm.

        Shapes: x, result [B, T, H].
        """
        return self.model.decode(x, attend, ops)

    def angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the RoPE cosine and sine tables for some positions.

        Shapes: positions [B, T]; results [B, 1, T, d].
        """
        return self.model.angles(positions, self.dtype)

    def logits(self, hidden: Tensor, ops: Operations) -> Tensor:
        """Return the logits of code 0 of the next frame.

        Shapes: hidden [B, H] after the final norm; result [B, V].
        """
        return ops.linear(hidden, self.codec_head)


@dataclass(frozen=True, slots=True)
class EmbeddingTables:
    """Precomputed embedding tables of a checkpoint, by id or code.

    Shapes: text [text_vocab, H]; codec [talker_vocab + 1, H], whose last row is zero; frames [Q, V, H], codes of each
    codebook in the talker's hidden size; first [talker_vocab, H'] and rest [Q - 1, V, H'], code 0 and all other codes
    in the code predictor's hidden size.
    """

    text: Tensor
    codec: Tensor
    frames: Tensor
    first: Tensor
    rest: Tensor

    def of(self, codebook: int) -> Tensor:
        """Return the embedding table of a codebook in the code predictor's hidden size.

        Shapes: result [V, H'].
        """
        return self.first if codebook == 0 else self.rest[codebook - 1]


@torch.inference_mode()
def tabulate(
    text: Tensor, text_projection: torch.nn.Module, codec: list[Tensor], small: torch.nn.Module
) -> EmbeddingTables:
    """Compute tables of projected embeddings from the published embedding tables.

    Args:
        text: Text embedding [text_vocab, text_width].
        text_projection: Projection of text embeddings to the talker's hidden size H.
        codec: Embedding [talker_vocab, H] of code 0, then the embedding [V, H] of each other codebook.
        small: Projection of code embeddings to the code predictor's hidden size H'.
    """
    codes = len(codec[1])
    return EmbeddingTables(
        text=torch.cat([text_projection(part) for part in torch.split(text, PROJECTED_IDS)]),
        codec=torch.cat((codec[0], torch.zeros_like(codec[0][:1]))),
        frames=torch.stack([table[:codes] for table in codec]),
        first=small(codec[0]),
        rest=torch.stack([small(table) for table in codec[1:]]),
    )
