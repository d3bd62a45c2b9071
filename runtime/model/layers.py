"""Decoder layer of the talker and the code predictor, in the order of its data flow.

The layers have no cache. The caller passes two objects: `attend` stores the new keys and values and returns the
attention output, and `ops` computes products and norms, fused or separately. Dtypes follow the reference implementation
(docs/model.md 2.1): RMSNorm is computed in float32, cast, and then multiplied by the weight. RoPE tables are computed
in float32 and cast before use.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from runtime.device.fused import Norm, QKNormRope
from runtime.model.config import DecoderConfig
from runtime.model.products import Linear


class AttentionFunction(Protocol):
    """Function that computes the attention of a decoder layer.

    The function applies the head norms and RoPE, and writes the new keys and values to the KV cache. Queries attend to
    cached and new positions.

    Shapes: qkv [B, T, (heads + 2 kv_heads) * d]; result [B, T, heads * d].
    """

    def __call__(self, layer: int, attention: Attention, qkv: Tensor) -> Tensor: ...


class Operations:
    """Decoder layer operations in plain torch, the reference implementation for fused kernels."""

    def linear(self, x: Tensor, linear: Linear) -> Tensor:
        """Return the output of a linear layer.

        Shapes: x [..., K]; result [..., N].
        """
        return linear(x)

    def linear_into(self, out: Tensor, x: Tensor, linear: Linear) -> None:
        """Write the output of a linear layer to `out`.

        Shapes: x [B, K]; out [B, N], may be strided.
        """
        out.copy_(linear(x))

    def norm(self, x: Tensor, norm: RMSNorm) -> Tensor:
        """Return the RMSNorm of x.

        Shapes: x, result [..., K].
        """
        return norm(x)

    def norm_linear(self, x: Tensor, norm: RMSNorm, linear: Linear) -> Tensor:
        """Return the output of a linear layer whose input is the RMSNorm of x.

        Shapes: x [..., K]; result [..., N].
        """
        return linear(norm(x))

    def add_linear(self, residual: Tensor, x: Tensor, linear: Linear) -> Tensor:
        """Return the sum of a residual and the output of a linear layer.

        Shapes: x [..., K]; residual, result [..., N].
        """
        return residual + linear(x)

    def heads(self, attention: Attention, qkv: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split a QKV projection into queries, keys and values, and apply head norms and RoPE.

        Shapes: see ``Attention.heads_of``.
        """
        return attention.heads_of(qkv, cos, sin)

    def norm_swiglu(self, x: Tensor, norm: RMSNorm, mlp: SwiGLU) -> Tensor:
        """Return silu(gate) * up of an MLP, where the MLP's input is the RMSNorm of x.

        Shapes: x [..., K]; result [..., inner].
        """
        return mlp.inner(norm(x))


class FusedLinear(Linear):
    """Linear layer that combines several published projections of the same input.

    `parts` maps the name of each published projection to its number of outputs. The rows of the weight are in the same
    order. The loader (runtime/model/checkpoints/weights.py) fills the rows.
    """

    def __init__(self, in_features: int, parts: dict[str, int], bias: bool) -> None:
        super().__init__(in_features, sum(parts.values()), bias)
        self.parts = parts


class RMSNorm(nn.Module):
    """RMSNorm in float32, whose result is cast before the weight is applied."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps = eps

    @property
    def plain(self) -> Norm:
        """Return the weight and the epsilon for fused operations."""
        return Norm(self.weight, self.eps)

    def forward(self, x: Tensor) -> Tensor:
        # Shapes: x, result [..., width].
        # On a CPU in float32, `F.rms_norm` is bitwise equal and faster.
        if x.is_cpu and x.dtype is torch.float32:
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * (wide * scale).to(x.dtype)


class LayerScale(nn.Module):
    """Learned scale for each channel of a residual branch (Touvron et al. 2021)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


def rotary(positions: Tensor, dim: int, theta: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the cosine and sine tables of split-half RoPE.

    Published talkers specify interleaved mRoPE with three rows of positions. The three rows are equal, so RoPE gives
    the same values (docs/model.md 1.2).

    Shapes: positions [..., T] integer; results [..., T, dim].
    """
    rates = theta ** (-torch.arange(0, dim, 2, device=positions.device, dtype=torch.float32) / dim)
    angles = positions.float().unsqueeze(-1) * rates
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return `x` with split-half RoPE applied.

    Shapes: x [B, heads, T, d]; cos, sin [B or 1, 1, T, d].
    """
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    """Projections and head norms of an attention layer.

    The attention itself is computed by a function of the type ``AttentionFunction``.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.kv_heads = config.num_key_value_heads
        self.head_dim = config.head_dim
        width, kv_width = self.heads * self.head_dim, self.kv_heads * self.head_dim
        parts = {"q_proj": width, "k_proj": kv_width, "v_proj": kv_width}
        self.qkv_proj = FusedLinear(config.hidden_size, parts, config.attention_bias)
        self.o_proj = Linear(width, config.hidden_size, config.attention_bias)
        self.q_norm = RMSNorm(self.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.head_dim, config.rms_norm_eps)

    def qk_norm_rope(self, cos: Tensor, sin: Tensor) -> QKNormRope:
        """Return the parameters of the head norms and RoPE for fused operations.

        Shapes: cos, sin [T, d].
        """
        return QKNormRope(self.q_norm.plain, self.k_norm.plain, cos, sin)

    def heads_of(self, qkv: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split a QKV projection into queries, keys and values, and apply head norms and RoPE.

        Shapes: qkv [B, T, (heads + 2 kv_heads) * d]; cos, sin [B or 1, 1, T, d]; q [B, heads, T, d]; k, v [B, kv_heads,
        T, d].
        """
        B, T, _ = qkv.shape
        heads = qkv.view(B, T, -1, self.head_dim).transpose(1, 2)
        q, k, v = torch.split(heads, [self.heads, self.kv_heads, self.kv_heads], dim=1)
        return rotate(self.q_norm(q), cos, sin), rotate(self.k_norm(k), cos, sin), v


def join_heads(out: Tensor) -> Tensor:
    """Concatenate the attention heads.

    Shapes: out [B, heads, T, d]; result [B, T, heads * d].
    """
    return out.transpose(1, 2).flatten(2)


class SwiGLU(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_up_proj = FusedLinear(width, {"gate_proj": inner, "up_proj": inner}, bias=False)
        self.down_proj = Linear(inner, width, bias=False)

    def inner(self, x: Tensor) -> Tensor:
        """Return silu(gate) * up, the input of the down projection.

        Shapes: x [..., width]; result [..., inner].
        """
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return F.silu(gate) * up

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.inner(x))


class DecoderLayer(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = SwiGLU(config.hidden_size, config.intermediate_size)

    def forward(self, x: Tensor, layer: int, attend: AttentionFunction, ops: Operations) -> Tensor:
        # Shapes: x [B, T, H].
        qkv = ops.norm_linear(x, self.input_layernorm, self.self_attn.qkv_proj)
        x = ops.add_linear(x, attend(layer, self.self_attn, qkv), self.self_attn.o_proj)
        inner = ops.norm_swiglu(x, self.post_attention_layernorm, self.mlp)
        return ops.add_linear(x, inner, self.mlp.down_proj)


class DecoderStack(nn.Module):
    """Layers and final norm of a Qwen3 decoder."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.head_dim = config.head_dim
        self.rope_theta = config.rope_theta

    def angles(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return the RoPE cosine and sine tables for some positions.

        Shapes: positions [B, T] integer; results [B, 1, T, d].
        """
        cos, sin = rotary(positions, self.head_dim, self.rope_theta, dtype)
        return cos.unsqueeze(1), sin.unsqueeze(1)

    def decode(self, x: Tensor, attend: AttentionFunction, ops: Operations) -> Tensor:
        """Run the inputs of new positions through all layers, without the final norm.

        Shapes: x, result [B, T, H].
        """
        for index, layer in enumerate(self.layers):
            x = layer(x, index, attend, ops)
        return x
