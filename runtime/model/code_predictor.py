"""Code predictor, which generates codes 1 to Q-1 of a frame from code 0.

The network also reads the talker's hidden state. The network is described in docs/model.md 2.2 and 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from runtime.device import Device
from runtime.device.fused import KVView
from runtime.model.config import DecoderConfig
from runtime.model.layers import Attention, DecoderStack, Operations, join_heads
from runtime.model.products import Linear, MappedEmbedding

# Function that samples a code. Arguments: codebook number; logits [B, V]; destination [B, H'] of the code's embedding.
# The destination may be strided, and is None for the last code.
DrawCode = Callable[[int, Tensor, Tensor | None], None]


class PredictorDecoder(DecoderStack):
    """Decoder of the code predictor, with an embedding table for each code except code 0.

    `codec_embedding[k - 1]` is the table of code k. Its rows have the talker's hidden size.
    """

    def __init__(self, config: DecoderConfig, talker_width: int) -> None:
        super().__init__(config)
        self.codec_embedding = nn.ModuleList(
            MappedEmbedding(config.vocab_size, talker_width) for _ in range(config.num_code_groups - 1)
        )


@dataclass(frozen=True, slots=True)
class PassCacheViews:
    """Views of the code predictor's KV cache for one layer and one pass.

    Shapes: cos, sin [1, 1, T, d]; key, value [B, kv_heads, T, d]; keys, values [B, kv_heads, end, d], where T is the
    number of new positions, and `end` is the number of all positions including the new ones.
    """

    cos: Tensor
    sin: Tensor
    key: Tensor  # Memory to which the keys of new positions are written.
    value: Tensor
    keys: Tensor  # Keys of all positions up to and including the new positions.
    values: Tensor


class FrameCache:
    """KV cache of the code predictor for the current frame, with Q positions per row.

    The cache is allocated once and reused by every frame. Attention reads only the positions that the current frame has
    written.
    """

    def __init__(
        self,
        predictor: CodePredictor,
        rows: int,
        device: Device,
        dtype: torch.dtype,
        ops: Operations | None = None,
    ) -> None:
        config, target = predictor.config, device.torch_device
        positions = torch.arange(config.num_code_groups, device=target)
        # Shape: [layers, B, kv_heads, Q, d].
        shape = (
            config.num_hidden_layers,
            rows,
            config.num_key_value_heads,
            config.num_code_groups,
            config.head_dim,
        )
        self.keys = torch.empty(shape, device=target, dtype=dtype)
        self.values = torch.empty(shape, device=target, dtype=dtype)
        self.cos, self.sin = predictor.model.angles(positions.unsqueeze(0), dtype)
        self.used = 0  # Number of positions that were written in the current frame.
        self._device = device
        self._fused = device.fused(dtype)
        self._ops = Operations() if ops is None else ops
        self._rows = torch.arange(rows, device=target)
        self._positions = positions[:, None].repeat(1, rows)  # Shape: [Q, B].
        # Keys: layer, rows, number of earlier positions, number of new positions.
        self._places: dict[tuple[int, int, int, int], PassCacheViews] = {}

    def __call__(self, layer: int, attention: Attention, qkv: Tensor) -> Tensor:
        B, T, _ = qkv.shape
        if self._fused is not None:
            out = self._fused.decode_attention(
                qkv.flatten(0, 1),
                attention.qk_norm_rope(self.cos[0, 0], self.sin[0, 0]),
                KVView(self.keys[layer], self.values[layer]),
                self._rows[:B],
                self._positions[self.used, :B],
                T,
                inputs_ready=True,
            )
            return out.view(B, T, -1)
        place = self._places.get((layer, B, self.used, T)) or self._place(layer, B, T)
        q, k, v = self._ops.heads(attention, qkv, place.cos, place.sin)
        place.key.copy_(k)
        place.value.copy_(v)
        return join_heads(self._device.prefill_attention(q, place.keys, place.values))

    def _place(self, layer: int, B: int, T: int) -> PassCacheViews:
        """Create and cache the views of a pass, because creating views is slow on a CPU."""
        span, end = slice(self.used, self.used + T), self.used + T
        keys, values = self.keys[layer, :B], self.values[layer, :B]
        place = PassCacheViews(
            self.cos[:, :, span],
            self.sin[:, :, span],
            keys[:, :, span],
            values[:, :, span],
            keys[:, :, :end],
            values[:, :, :end],
        )
        self._places[layer, B, self.used, T] = place
        return place


class CodePredictor(nn.Module):
    """Code predictor network, which runs Q-1 passes per frame.

    The first pass has two positions: the talker's hidden state and the embedding of code 0. Every later pass has one
    position: the embedding of the previous code.
    """

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
        """Return the embeddings of all codes of some frames, given the embeddings of code 0.

        Shapes: first [..., H], the embeddings of code 0; codes [..., Q]; result [..., Q, H].
        """
        rest = [table(codes[..., k + 1]) for k, table in enumerate(self.model.codec_embedding)]
        return torch.stack((first, *rest), dim=-2)

    def begin(self, hidden: Tensor, ops: Operations) -> Tensor:
        """Return the input of a frame's first pass, in which the embedding of code 0 is missing.

        The caller writes this embedding to result[:, 1].

        Shapes: hidden [B, H] after the talker's final norm; result [B, 2, H'].
        """
        x = hidden.new_empty(len(hidden), 2, self.config.hidden_size)
        small = self.small_to_mtp_projection
        if isinstance(small, Linear):
            ops.linear_into(x[:, 0], hidden, small)
        else:
            x[:, 0] = hidden
        return x

    def predict(self, x: Tensor, cache: FrameCache, ops: Operations, draw: DrawCode) -> None:
        """Run all passes of one frame, and sample codes 1 to Q-1 by calling `draw`.

        Shapes: x [B, 2, H'], the result of `begin` with the embedding of code 0 written.
        """
        cache.used = 0
        last = len(self.lm_head)
        for group, head in enumerate(self.lm_head, 1):
            assert isinstance(head, Linear)
            logits = ops.norm_linear(self.model.decode(x, cache, ops)[:, -1], self.model.norm, head)
            cache.used += x.shape[1]
            x = torch.empty_like(x[:, -1:])
            draw(group, logits, x[:, 0] if group < last else None)

    def project(self, x: Tensor) -> Tensor:
        """Project vectors of the talker's hidden size to the code predictor's hidden size.

        Shapes: x [B, H]; result [B, H'].
        """
        projected: Tensor = self.small_to_mtp_projection(x)
        return projected
