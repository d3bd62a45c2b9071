"""Code2Wav network, which decodes codes to audio in chunks (docs/model.md 2.4, 6).

The chunks may have any size. Every causal layer stores its past inputs in a ``StreamState``. A complete decode is one
chunk with a new state. Frame t gives exactly the samples t*1920 to (t+1)*1920, without delay and for any division into
chunks. On a CPU, the audio of a frame is bitwise independent of chunks and batch (runtime/model/products.py). All audio
tensors are [B, T, C].
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from runtime.model.config import Code2WavConfig
from runtime.model.layers import FusedLinear, LayerScale, RMSNorm, SwiGLU, rotary, rotate
from runtime.model.products import Conv, Linear, TransposedConv

MIN_CLUSTER_USAGE = 1e-5  # Lower bound of the divisor of a codebook entry (docs/model.md 2.4).
SNAKE_EPS = 1e-9


class StreamState:
    """State of a batch of streams between chunks (docs/model.md 6.3).

    Shapes: convs, one per causal convolution, [B, left, C]; keys and values, one per transformer layer, [B, heads,
    window - 1, d]; frames [B] int64, number of decoded frames. The state of a new stream is all zeros.
    """

    def __init__(self, convs: list[Tensor], keys: list[Tensor], values: list[Tensor], frames: Tensor) -> None:
        self.convs = convs
        self.keys = keys
        self.values = values
        self.frames = frames

    def tensors(self) -> list[Tensor]:
        return [*self.convs, *self.keys, *self.values, self.frames]

    def with_past(self, slot: int, x: Tensor) -> Tensor:
        """Return a convolution's stored inputs followed by its new inputs.

        The last of these inputs are stored for the next call.

        Args:
            slot: Index of the convolution.

        Shapes: x [B, T, C]; result [B, left + T, C].
        """
        x = torch.cat((self.convs[slot], x), dim=1)
        self.convs[slot] = x[:, -self.convs[slot].shape[1] :]
        return x

    def rows(self, index: Tensor) -> StreamState:
        """Return a copy of the state of some streams of the batch.

        Shapes: index [B] int64, indices of the streams.
        """
        return StreamState(
            [part[index] for part in self.convs],
            [part[index] for part in self.keys],
            [part[index] for part in self.values],
            self.frames[index],
        )

    def write(self, index: Tensor, rows: StreamState) -> None:
        """Replace the state of some streams of the batch.

        Args:
            rows: New state of these streams.

        Shapes: index [B] int64, indices of the streams.
        """
        for part, new in zip(self.tensors(), rows.tensors(), strict=True):
            part[index] = new

    def reset(self, row: int) -> None:
        """Reset the state of one stream to the state of a new stream."""
        for part in self.tensors():
            part[row] = 0


class CausalConv(nn.Module):
    """Causal convolution that stores its last inputs in ``StreamState.convs[slot]``."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = Conv(inputs, outputs, kernel, dilation=dilation, groups=groups)
        self.inputs = inputs
        self.left = (kernel - 1) * dilation
        self.slot = -1

    def forward(self, x: Tensor, state: StreamState) -> Tensor:
        # Shapes: x [B, T, C]; result [B, T, C'].
        return self.conv(state.with_past(self.slot, x) if self.left else x)


class CausalTransposedConv(nn.Module):
    """Causal transposed convolution, where `kernel` is a multiple of `stride`."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = TransposedConv(inputs, outputs, kernel, stride=stride)
        self.inputs = inputs
        self.left = kernel // stride - 1
        self.slot = -1

    def forward(self, x: Tensor, state: StreamState) -> Tensor:
        # Shapes: x [B, T, C]; result [B, T * stride, C'].
        return self.conv(state.with_past(self.slot, x) if self.left else x)


class SnakeBeta(nn.Module):
    """SnakeBeta activation: x + sin^2(x e^alpha) / (e^beta + eps).

    The parameters alpha and beta are exponents, as in the published weights.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.empty(channels))
        self.beta = nn.Parameter(torch.empty(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = (x * self.alpha.exp()).sin_()
        y *= y
        y *= 1.0 / (self.beta.exp() + SNAKE_EPS)
        y += x
        return y


class ResidualUnit(nn.Module):
    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.act1 = SnakeBeta(channels)
        self.conv1 = CausalConv(channels, channels, 7, dilation)
        self.act2 = SnakeBeta(channels)
        self.conv2 = CausalConv(channels, channels, 1)

    def forward(self, x: Tensor, state: StreamState) -> Tensor:
        y = self.conv2(self.act2(self.conv1(self.act1(x), state)), state)
        y += x
        return y


class UpsampleBlock(nn.Module):
    """SnakeBeta, transposed convolution with stride ``rate``, and three residual units."""

    def __init__(self, inputs: int, outputs: int, rate: int) -> None:
        super().__init__()
        units = [ResidualUnit(outputs, dilation) for dilation in (1, 3, 9)]
        self.block = nn.ModuleList([SnakeBeta(inputs), CausalTransposedConv(inputs, outputs, 2 * rate, rate), *units])

    def forward(self, x: Tensor, state: StreamState) -> Tensor:
        snake, upsample, *units = self.block
        x = upsample(snake(x), state)
        for unit in units:
            x = unit(x, state)
        return x


class ConvNeXt(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = CausalConv(channels, channels, 7, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = Linear(channels, 4 * channels)
        self.pwconv2 = Linear(4 * channels, channels)
        self.gamma = nn.Parameter(torch.empty(channels))

    def forward(self, x: Tensor, state: StreamState) -> Tensor:
        y = self.norm(self.dwconv(x, state))
        return x + self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))


class UpsampleStage(nn.ModuleList):
    """Transposed convolution with stride ``ratio``, followed by a ConvNeXt block.

    The class is a ModuleList, so the parameters have their published names.
    """

    def __init__(self, channels: int, ratio: int) -> None:
        super().__init__([CausalTransposedConv(channels, channels, ratio, ratio), ConvNeXt(channels)])

    def forward(self, x: Tensor, state: StreamState) -> Tensor:
        for part in self:
            x = part(x, state)
        return x


class Codebook(nn.Module):
    """Codebook whose rows are embedding_sum / cluster_usage, two published tensors."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.embedding_sum = nn.Parameter(torch.empty(size, width))
        self.cluster_usage = nn.Parameter(torch.empty(size))

    def forward(self, codes: Tensor) -> Tensor:
        usage = self.cluster_usage[codes].clamp(min=MIN_CLUSTER_USAGE)
        return self.embedding_sum[codes] / usage.unsqueeze(-1)


class QuantizerLayer(nn.Module):
    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self._codebook = Codebook(size, width)

    def forward(self, codes: Tensor) -> Tensor:
        return self._codebook(codes)


class QuantizerLayers(nn.Module):
    """Codebooks of several code groups, whose embeddings are added for each frame."""

    def __init__(self, groups: int, size: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(QuantizerLayer(size, width) for _ in range(groups))

    def forward(self, codes: Tensor) -> Tensor:
        # Shapes: codes [B, T, groups]; result [B, T, width].
        first, *rest = self.layers
        total = first(codes[..., 0])
        for group, layer in enumerate(rest, start=1):
            total = total + layer(codes[..., group])
        return total


class ResidualQuantizer(nn.Module):
    """Residual vector quantizer, which decodes codes to the projected sum of their embeddings.

    The published weight `input_proj` is loaded, but only encoding needs it.
    """

    def __init__(self, groups: int, size: int, width: int, outer: int) -> None:
        super().__init__()
        self.vq = QuantizerLayers(groups, size, width)
        self.input_proj = Conv(outer, width, 1, bias=False)
        self.output_proj = Conv(width, outer, 1, bias=False)

    def forward(self, codes: Tensor) -> Tensor:
        # Shapes: codes [B, T, groups]; result [B, T, outer].
        return self.output_proj(self.vq(codes))


class SplitQuantizer(nn.Module):
    """Quantizer with separate parts for codebook 0 and for all other codebooks."""

    def __init__(self, config: Code2WavConfig) -> None:
        super().__init__()
        size, width, outer = config.codebook_size, config.codebook_dim // 2, config.codebook_dim
        self.rvq_first = ResidualQuantizer(1, size, width, outer)
        self.rvq_rest = ResidualQuantizer(config.num_quantizers - 1, size, width, outer)

    def forward(self, codes: Tensor) -> Tensor:
        return self.rvq_first(codes[..., :1]) + self.rvq_rest(codes[..., 1:])


class WindowAttention(nn.Module):
    """Attention of each frame over the last `window` frames, including the frame itself.

    Queries and keys are not normalized.
    """

    def __init__(self, config: Code2WavConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.window = config.sliding_window
        self.head_dim = config.head_dim
        self.heads = config.num_attention_heads
        self.kv_heads = config.num_key_value_heads
        width, kv_width = self.heads * self.head_dim, self.kv_heads * self.head_dim
        parts = {"q_proj": width, "k_proj": kv_width, "v_proj": kv_width}
        self.qkv_proj = FusedLinear(config.hidden_size, parts, config.attention_bias)
        self.o_proj = Linear(width, config.hidden_size, config.attention_bias)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, state: StreamState) -> Tensor:
        # Shapes: x [B, T, H]; mask [B, T, window].
        B, T, _ = x.shape
        heads = self.qkv_proj(x).view(B, T, -1, self.head_dim).transpose(1, 2)
        q, k, v = heads.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        keys = torch.cat((state.keys[self.layer], rotate(k, cos, sin)), dim=2)
        values = torch.cat((state.values[self.layer], v), dim=2)
        state.keys[self.layer], state.values[self.layer] = keys[:, :, T:], values[:, :, T:]
        return self.o_proj(self._attend(rotate(q, cos, sin), keys, values, mask))

    def _attend(self, q: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """Return the attention of each query over the last `window` keys up to its position.

        Shapes: q [B, heads, T, d]; keys, values [B, kv_heads, window - 1 + T, d]; result [B, T, heads * d].
        """
        B, _, T, d = q.shape
        # Shape: [B, kv_heads, T, number of query heads per key head, d].
        q = q.view(B, self.kv_heads, -1, T, d).transpose(2, 3)
        shape = q.shape[:-1]
        k, v = (part.unfold(2, self.window, 1).transpose(-1, -2).flatten(0, 2) for part in (keys, values))
        scores = torch.bmm(q.flatten(0, 2), k.transpose(1, 2)).view(*shape, self.window) * d**-0.5
        weights = scores.masked_fill_(~mask[:, None, :, None], -torch.inf).softmax(dim=-1)
        out = torch.bmm(weights.flatten(0, 2), v).view(*shape, d)
        return out.transpose(1, 2).reshape(B, T, -1)


class WindowLayer(nn.Module):
    def __init__(self, config: Code2WavConfig, layer: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = WindowAttention(config, layer)
        self.self_attn_layer_scale = LayerScale(config.hidden_size)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = SwiGLU(config.hidden_size, config.intermediate_size)
        self.mlp_layer_scale = LayerScale(config.hidden_size)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, state: StreamState) -> Tensor:
        attended = self.self_attn(self.input_layernorm(x), cos, sin, mask, state)
        x = x + self.self_attn_layer_scale(attended)
        return x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))


class WindowTransformer(nn.Module):
    def __init__(self, config: Code2WavConfig) -> None:
        super().__init__()
        self.window = config.sliding_window
        self.head_dim = config.head_dim
        self.theta = config.rope_theta
        self.input_proj = Linear(config.latent_dim, config.hidden_size)
        self.layers = nn.ModuleList(WindowLayer(config, i) for i in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.output_proj = Linear(config.hidden_size, config.latent_dim)

    def forward(self, x: Tensor, state: StreamState) -> Tensor:
        # Shapes: x [B, T, latent].
        positions = state.frames[:, None] + torch.arange(x.shape[1], device=x.device)
        cos, sin = rotary(positions, self.head_dim, self.theta, x.dtype)
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        mask = self._mask(positions)
        x = self.input_proj(x)
        for layer in self.layers:
            x = layer(x, cos, sin, mask, state)
        state.frames = state.frames + x.shape[1]
        return self.output_proj(self.norm(x))

    def _mask(self, positions: Tensor) -> Tensor:
        """Return a mask that is True for window positions after the start of the stream.

        Shapes: positions [B, T]; result [B, T, window].
        """
        return positions[:, :, None] + torch.arange(1 - self.window, 1, device=positions.device) >= 0


class Code2Wav(nn.Module):
    """Code2Wav network: the decoder of the speech tokenizer, with the key prefix ``decoder.``."""

    def __init__(self, config: Code2WavConfig) -> None:
        super().__init__()
        self.config = config
        self.quantizer = SplitQuantizer(config)
        self.pre_conv = CausalConv(config.codebook_dim, config.latent_dim, 3)
        self.pre_transformer = WindowTransformer(config)
        self.upsample = nn.ModuleList(UpsampleStage(config.latent_dim, ratio) for ratio in config.upsampling_ratios)
        widths = [config.decoder_dim // 2**step for step in range(len(config.upsample_rates) + 1)]
        blocks = [
            UpsampleBlock(wide, narrow, rate)
            for wide, narrow, rate in zip(widths, widths[1:], config.upsample_rates, strict=False)
        ]
        self.decoder = nn.ModuleList(
            [
                CausalConv(config.latent_dim, config.decoder_dim, 7),
                *blocks,
                SnakeBeta(widths[-1]),
                CausalConv(widths[-1], 1, 7),
            ]
        )
        self.looking_back = [
            module for module in self.modules() if isinstance(module, CausalConv | CausalTransposedConv) and module.left
        ]
        for slot, module in enumerate(self.looking_back):
            module.slot = slot

    def fresh_state(self, rows: int) -> StreamState:
        """Return the state of `rows` new streams, on the device of the weights."""
        weight, config = self.pre_conv.conv.weight, self.config

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, device=weight.device, dtype=weight.dtype)

        cache = (rows, config.num_key_value_heads, config.sliding_window - 1, config.head_dim)
        return StreamState(
            [zeros(rows, module.left, module.inputs) for module in self.looking_back],
            [zeros(*cache) for _ in range(config.num_hidden_layers)],
            [zeros(*cache) for _ in range(config.num_hidden_layers)],
            torch.zeros(rows, device=weight.device, dtype=torch.int64),
        )

    def forward(self, codes: Tensor, state: StreamState) -> Tensor:
        """Decode the next n frames of every stream, and advance the state.

        Shapes: codes [B, n, Q] int64; result [B, n * samples_per_frame] in [-1, 1].
        """
        return self.vocode(self.latents(codes, state), state)

    def warm(self, codes: Tensor, state: StreamState) -> None:
        """Advance the state of new streams over reference frames, and discard the audio.

        The transformer processes all frames. The convolutions after the transformer process only the last `tail_frames`
        frames, on which their state depends (docs/model.md 6.3, ICL warm start).
        """
        latents = self.latents(codes, state)
        self.vocode(latents[:, -self.tail_frames :], state)

    @property
    def tail_frames(self) -> int:
        """Return the number of last frames that determine the state of the upsampling layers.

        All convolutions after the transformer are included.
        """
        # Number of earlier inputs on which an output depends. It is computed from the last layer to the first
        # (docs/model.md 6.2).
        oldest = 6
        for rate in reversed(self.config.upsample_rates):
            oldest = -(-(oldest + 6 * (1 + 3 + 9)) // rate) + 1
        oldest += 6
        for ratio in reversed(self.config.upsampling_ratios):
            oldest = -(-(oldest + 6) // ratio)
        return oldest + 1

    def latents(self, codes: Tensor, state: StreamState) -> Tensor:
        return self.pre_transformer(self.pre_conv(self.quantizer(codes), state), state)

    def vocode(self, latents: Tensor, state: StreamState) -> Tensor:
        x = latents
        for stage in self.upsample:
            x = stage(x, state)
        first, *blocks, snake, last = self.decoder
        x = first(x, state)
        for block in blocks:
            x = block(x, state)
        return last(snake(x), state).squeeze(-1).clamp(-1, 1)
