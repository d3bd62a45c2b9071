"""The code predictor: codes 1 to Q-1 of one frame from the talker's hidden state and code 0 (facts 2.2, 5)."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from runtime.model.config import DecoderConfig
from runtime.model.layers import DecoderStack
from runtime.model.products import Linear

PickCode = Callable[[int, Tensor], Tensor]  # (codebook, logits [B, V] float32) -> code [B]


class PredictorDecoder(DecoderStack):
    """The decoder with one input table per code group; table k-1 embeds code k, in the talker's width."""

    def __init__(self, config: DecoderConfig, talker_width: int) -> None:
        super().__init__(config)
        self.codec_embedding = nn.ModuleList(
            nn.Embedding(config.vocab_size, talker_width) for _ in range(config.num_code_groups - 1)
        )


class FrameCache:
    """Keys and values of the frames in the making, one row each, at most Q positions; made once and reused.

    Every read ends at the position just written, so nothing of an earlier frame is ever seen (R8).
    """

    def __init__(self, config: DecoderConfig, rows: int, device: torch.device, dtype: torch.dtype) -> None:
        # [layers, B, kv_heads, Q, d]
        shape = (
            config.num_hidden_layers,
            rows,
            config.num_key_value_heads,
            config.num_code_groups,
            config.head_dim,
        )
        self.keys = torch.empty(shape, device=device, dtype=dtype)
        self.values = torch.empty(shape, device=device, dtype=dtype)
        self.used = 0  # positions written so far in this frame

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        B, _, T, _ = q.shape
        end = self.used + T
        keys, values = self.keys[layer, :B], self.values[layer, :B]
        keys[:, :, self.used : end] = k
        values[:, :, self.used : end] = v
        # Two positions come only at the start, one at a time after that: causal by construction.
        return F.scaled_dot_product_attention(q, keys[:, :, :end], values[:, :, :end], is_causal=T > 1, enable_gqa=True)


class CodePredictor(nn.Module):
    """One frame at a time: a first pass over [hidden, E0[c0]], then Q-2 passes of one position."""

    def __init__(self, config: DecoderConfig, talker_width: int) -> None:
        super().__init__()
        self.config = config
        self.model = PredictorDecoder(config, talker_width)
        self.lm_head = nn.ModuleList(
            Linear(config.hidden_size, config.vocab_size, bias=False) for _ in range(config.num_code_groups - 1)
        )
        self.small_to_mtp_projection: nn.Module = nn.Identity()
        if config.hidden_size != talker_width:
            self.small_to_mtp_projection = Linear(talker_width, config.hidden_size)

    def embed_with(self, first: Tensor, codes: Tensor) -> Tensor:
        """Embeddings of whole frames, that of c0 given. Shapes: first [..., H]; codes [..., Q]; result [..., Q, H]."""
        rest = [table(codes[..., k + 1]) for k, table in enumerate(self.model.codec_embedding)]
        return torch.stack((first, *rest), dim=-2)

    def predict(self, hidden: Tensor, first: Tensor, cache: FrameCache, pick: PickCode) -> list[Tensor]:
        """Make the codes 1 to Q-1 of one frame of every row.

        Shapes: hidden [B, H] after the talker's final norm; first [B, H] = E0[c0]; result Q-1 tensors [B] int64.
        """
        x = torch.stack((hidden, first), dim=1)
        positions = torch.arange(self.config.num_code_groups, device=x.device).unsqueeze(0)
        cos, sin = self.model.angles(positions, x.dtype)
        cache.used = 0
        codes: list[Tensor] = []
        for group, head in enumerate(self.lm_head):
            span = slice(cache.used, cache.used + x.shape[1])
            out = self.model.decode(self.small_to_mtp_projection(x), (cos[:, :, span], sin[:, :, span]), cache)
            cache.used = span.stop
            codes.append(pick(group + 1, head(out[:, -1]).float()))
            x = self.model.codec_embedding[group](codes[-1]).unsqueeze(1)
        return codes
