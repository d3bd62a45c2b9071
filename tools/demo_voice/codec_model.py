"""Speech tokenizer for training: Mimi encoder, split RVQ and Code2Wav.

Weights have the published key names, except those of the quantizer. The quantizer has a BatchNorm, which `Codec.fold`
merges into the input projections and the first codebooks, and one table for all codebooks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from config import VOICE
from runtime.model.checkpoints.config_files import read_speech_tokenizer_config
from runtime.model.config import Code2WavConfig, DecoderConfig, SpeechEncoderConfig
from runtime.model.layers import LayerScale, rotary, rotate
from runtime.model.speech_encoder import EncoderTransformer, PaddedConv, SEANet

SIZES = read_speech_tokenizer_config(VOICE / "speech_tokenizer")
Sizes = DecoderConfig | Code2WavConfig
NORM_EPS = 1e-5
NEUTRAL_VARIANCE = 1 - NORM_EPS  # Variance with which a BatchNorm with a mean of 0 has no effect in evaluation mode.


class Snake(nn.Module):
    """SnakeBeta activation: x + sin^2(x e^alpha) / (e^beta + 1e-9).

    If `kernel` is set, it computes the activation (a Triton kernel on a GPU).
    """

    kernel: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha, self.beta = (nn.Parameter(torch.zeros(channels)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        if Snake.kernel:
            return Snake.kernel(x, self.alpha, self.beta)
        return x + torch.sin(x * self.alpha.exp()[:, None]).square() / (self.beta.exp()[:, None] + 1e-9)


def causal_conv(inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1) -> nn.Sequential:
    """Return a Conv1d that pads its input on the left only."""
    left = (kernel - 1) * dilation
    pad = {"pad": nn.ConstantPad1d((left, 0), 0.0)} if left else {}
    return nn.Sequential(OrderedDict(pad, conv=nn.Conv1d(inputs, outputs, kernel, dilation=dilation, groups=groups)))


class CausalTransposedConv(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)[..., : x.shape[-1] * self.stride]


class Attention(nn.Module):
    """Attention with rotary positions, which is causal if no mask is given.

    `norm(dim)` creates the normalization layer of the queries and that of the keys, for heads of `dim` dimensions.
    """

    def __init__(self, c: Sizes, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        hidden, heads, kv_heads = c.hidden_size, c.num_attention_heads, c.num_key_value_heads
        self.dim = dim = c.head_dim
        self.groups = heads // kv_heads
        self.q_proj = nn.Linear(hidden, heads * dim, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(hidden, kv_heads * dim, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(heads * dim, hidden, bias=False)
        self.q_norm, self.k_norm = norm(dim), norm(dim)

    def forward(self, x: Tensor, table: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        q, k, v = (proj(x).unflatten(-1, (-1, self.dim)) for proj in (self.q_proj, self.k_proj, self.v_proj))
        q, k, v = self.q_norm(q).transpose(1, 2), self.k_norm(k).transpose(1, 2), v.transpose(1, 2)
        q, k = rotate(q, *table).to(v.dtype), rotate(k, *table).to(v.dtype)
        k, v = k.repeat_interleave(self.groups, 1), v.repeat_interleave(self.groups, 1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class SwiGlu(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(hidden, inner, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Transformer layer with pre-norms.

    `after` creates the module after the attention and the module after the MLP, for example a layer scale.
    """

    def __init__(self, c: Sizes, after: Callable[[], nn.Module], norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(c, norm), SwiGlu(c.hidden_size, c.intermediate_size)
        norms = (nn.RMSNorm(c.hidden_size, eps=c.rms_norm_eps) for _ in range(2))
        self.input_layernorm, self.post_attention_layernorm = norms
        self.self_attn_layer_scale, self.mlp_layer_scale = after(), after()

    def forward(self, x: Tensor, table: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        x = x + self.self_attn_layer_scale(self.self_attn(self.input_layernorm(x), table, mask))
        return x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))


def run_layers(x: Tensor, layers: nn.ModuleList, theta: float, mask: Tensor | None = None) -> Tensor:
    """Return the output [B, T, hidden] of transformer layers for x with the same shape."""
    table = rotary(torch.arange(x.shape[1], device=x.device), layers[0].self_attn.dim, theta, torch.float32)
    for layer in layers:
        x = layer(x, table, mask)
    return x


class PreTransformer(nn.Module):
    """Causal transformer in which each position attends to at most `sliding_window` keys."""

    def __init__(self, c: Code2WavConfig) -> None:
        super().__init__()
        self.window, self.theta = c.sliding_window, c.rope_theta
        self.input_proj = nn.Linear(c.latent_dim, c.hidden_size)
        scale = partial(LayerScale, c.hidden_size)
        self.layers = nn.ModuleList(Layer(c, scale, nn.Identity) for _ in range(c.num_hidden_layers))
        self.norm = nn.RMSNorm(c.hidden_size, eps=c.rms_norm_eps)
        self.output_proj = nn.Linear(c.hidden_size, c.latent_dim)

    def forward(self, x: Tensor) -> Tensor:
        at = torch.arange(x.shape[1], device=x.device)
        gap = at[:, None] - at[None]
        mask = (gap >= 0) & (gap < self.window)
        return self.output_proj(self.norm(run_layers(self.input_proj(x), self.layers, self.theta, mask)))


class ConvNeXt(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dwconv = causal_conv(dim, dim, 7, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(torch.full((dim,), 0.2))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm(self.dwconv(x).transpose(1, 2))
        return x + (self.gamma * self.pwconv2(F.gelu(self.pwconv1(inner)))).transpose(1, 2)


class ResidualUnit(nn.Sequential):
    def __init__(self, dim: int, dilation: int) -> None:
        super().__init__(OrderedDict(act1=Snake(dim), conv1=causal_conv(dim, dim, 7, dilation),
                                     act2=Snake(dim), conv2=causal_conv(dim, dim, 1)))  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


def decoder_block(inputs: int, rate: int) -> nn.Sequential:
    outputs = inputs // 2
    up = CausalTransposedConv(inputs, outputs, 2 * rate, rate)
    block = nn.Sequential(Snake(inputs), up, *(ResidualUnit(outputs, dilation) for dilation in (1, 3, 9)))
    return nn.Sequential(OrderedDict(block=block))


class Code2Wav(nn.Module):
    """Decoder that converts quantized latents [B, codebook_dim, T] to samples [B, 1920 T]."""

    def __init__(self, c: Code2WavConfig) -> None:
        super().__init__()
        latent, dim = c.latent_dim, c.decoder_dim
        self.pre_conv = causal_conv(c.codebook_dim, latent, 3)
        self.pre_transformer = PreTransformer(c)
        self.upsample = nn.Sequential(
            *(nn.Sequential(CausalTransposedConv(latent, latent, 2, 2), ConvNeXt(latent)) for _ in range(2))
        )
        self.decoder = nn.Sequential(causal_conv(latent, dim, 7),
                                     *(decoder_block(dim >> i, rate) for i, rate in enumerate(c.upsample_rates)),
                                     Snake(dim >> 4), causal_conv(dim >> 4, 1, 7))  # fmt: skip

    def forward(self, z: Tensor) -> Tensor:
        x = self.pre_transformer(self.pre_conv(z).transpose(1, 2)).transpose(1, 2)
        return self.decoder(self.upsample(x))[:, 0]


class MimiEncoder(nn.Module):
    """Speech encoder that converts samples [B, 1920 T] to latents [B, hidden, T]."""

    def __init__(self, c: SpeechEncoderConfig) -> None:
        super().__init__()
        self.encoder, self.encoder_transformer = SEANet(c), EncoderTransformer(c)
        self.downsample = PaddedConv(c.hidden_size, c.hidden_size, 4, stride=2, bias=False, pad="replicate")

    def forward(self, audio: Tensor) -> Tensor:
        x, _ = self.encoder(audio[:, None], None)
        return self.downsample(self.encoder_transformer(x.transpose(1, 2)).transpose(1, 2))


def nearest_rows(x: Tensor, table: Tensor) -> Tensor:
    """Return the index of the nearest row of `table` for each row of `x`."""
    return (table.square().sum(-1) - 2 * x @ table.T).argmin(-1)


class SplitQuantizer(nn.Module):
    """Quantizer with one semantic codebook and K-1 acoustic codebooks.

    The semantic and the acoustic branch quantize different projections of the same latent.
    """

    def __init__(self) -> None:
        super().__init__()
        c = SIZES.encoder
        self.dim, self.books, self.size = c.codebook_dim, c.num_quantizers, c.codebook_size
        self.input_proj = nn.Conv1d(c.hidden_size, 2 * self.dim, 1, bias=False)
        self.first_out, self.rest_out = (nn.Conv1d(self.dim, 2 * self.dim, 1, bias=False) for _ in range(2))
        self.norm = nn.BatchNorm1d(2 * self.dim, eps=NORM_EPS, momentum=0.02, affine=False)
        self.register_buffer("sums", torch.randn(self.books, self.size, self.dim))
        self.register_buffer("usage", torch.ones(self.books, self.size))
        self.register_buffer("active", torch.zeros(()))

    @property
    def tables(self) -> Tensor:
        return self.sums / self.usage.clamp(min=1e-5)[..., None]

    def project(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Return the projections [B T, 2 dim] of both branches, before and after the BatchNorm."""
        raw = self.input_proj(latent.float()).transpose(1, 2).flatten(0, 1)
        return raw, self.norm(raw)

    @torch.no_grad()
    def nearest(self, y: Tensor, tables: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Quantize projections [N, 2 dim] with the codebooks `tables` of residual quantization.

        Returns:
            Codes [N, K], their codebook vectors [K, N, dim], and the inputs (residuals) [K, N, dim] of the codebooks.
        """
        codes, rows, targets = [], [], []
        rest = y[:, : self.dim]
        for k, table in enumerate(tables):
            rest = y[:, self.dim :] if k == 1 else rest
            codes.append(nearest_rows(rest, table))
            rows.append(table[codes[-1]])
            targets.append(rest)
            rest = rest - rows[-1]
        return torch.stack(codes, -1), torch.stack(rows), torch.stack(targets)

    @torch.no_grad()
    def learn(self, codes: Tensor, targets: Tensor, decay: Tensor) -> None:
        """Move the codebooks towards the mean of their inputs, and replace rarely used vectors.

        A vector is replaced by a random input. A CUDA graph can capture this function.
        """
        count = codes.shape[0]
        hot = targets.new_zeros(self.books, count, self.size).scatter_(2, codes.T[..., None], 1.0)
        usage = torch.lerp(hot.sum(1), self.usage, decay)
        sums = torch.lerp(hot.transpose(1, 2) @ targets, self.sums, decay)
        pick = torch.randint(count, (self.books, self.size), device=codes.device)
        spare = targets.gather(1, pick[..., None].expand(-1, -1, self.dim))
        mean = count / self.size
        dead = usage < 0.08 * mean
        usage = torch.where(dead, torch.full_like(usage, mean), usage)
        sums = torch.where(dead[..., None], spare * mean, sums)
        self.usage.copy_(torch.where(self.active > 0, usage, self.usage))
        self.sums.copy_(torch.where(self.active > 0, sums, self.sums))

    @torch.no_grad()
    def initialise(self, y: Tensor) -> None:
        """Initialize the codebooks by k-means on projections [N, 2 dim], and enable quantization."""
        for k in range(self.books):
            rest = self.nearest(y, self.tables[: k + 1])[2][k]
            table = rest[torch.randperm(len(rest), device=y.device)[: self.size]]
            table = table.repeat(-(-self.size // len(table)), 1)[: self.size]
            for _ in range(12):
                hot = F.one_hot(nearest_rows(rest, table), self.size).to(rest.dtype)
                total = hot.sum(0)
                table = torch.where(total[:, None] > 0, hot.T @ rest / total.clamp(min=1)[:, None], table)
            self.usage[k].fill_(1.0)
            self.sums[k].copy_(table)
        self.active.fill_(1.0)

    def combine(self, first: Tensor, rest: Tensor) -> Tensor:
        """Return Code2Wav's input [B, 2 dim, T].

        Args:
            first: Vectors [B, T, dim] of the semantic codebook.
            rest: Sums [B, T, dim] of the vectors of the acoustic codebooks.
        """
        return self.first_out(first.transpose(1, 2)) + self.rest_out(rest.transpose(1, 2))


class Codec(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.quantizer = MimiEncoder(SIZES.encoder), SplitQuantizer()
        self.decoder = Code2Wav(SIZES.code2wav)
        for module in self.modules():
            if isinstance(module, LayerScale):
                nn.init.constant_(module.scale, 0.2)

    @classmethod
    def load(cls, path: Path, device: torch.device) -> Codec:
        """Return the speech tokenizer from a file or a folder, in evaluation mode.

        Args:
            path: File that train_codec.py has written, or folder of an exported voice.
        """
        codec = cls().to(device)
        state = exported_codec(path) if path.is_dir() else torch.load(path, map_location=device, weights_only=True)
        codec.load_state_dict(codec.state_dict() | state)
        return codec.eval()

    @torch.no_grad()
    def encode(self, audio: Tensor) -> Tensor:
        """Encode samples [B, 1920 T] to codes [B, T, K]."""
        _, y = self.quantizer.project(self.encoder(audio))
        codes, _, _ = self.quantizer.nearest(y, self.quantizer.tables)
        return codes.unflatten(0, (audio.shape[0], -1))

    def decode(self, codes: Tensor) -> Tensor:
        """Decode codes [B, T, K] to samples [B, 1920 T]."""
        parts = [F.embedding(codes[..., k], table) for k, table in enumerate(self.quantizer.tables)]
        return self.decoder(self.quantizer.combine(parts[0], torch.stack(parts[1:]).sum(0)))

    @torch.no_grad()
    def fold(self) -> None:
        """Merge the BatchNorm into the weights and codebooks.

        The BatchNorm then has no effect in evaluation mode. The result differs at the edges, because the zero padding
        of the decoder's input is not shifted.
        """
        q, pre_conv = self.quantizer, self.decoder.pre_conv.conv
        sigma = (q.norm.running_var + NORM_EPS).sqrt()
        shift = q.norm.running_mean / sigma
        q.input_proj.weight.div_(sigma[:, None, None])
        q.sums[0] += shift[: q.dim] * q.usage[0][:, None]
        q.sums[1] += shift[q.dim :] * q.usage[1][:, None]
        # The decoder's input is now shifted by a constant, which its first convolution subtracts.
        constant = q.first_out.weight[..., 0] @ shift[: q.dim] + q.rest_out.weight[..., 0] @ shift[q.dim :]
        pre_conv.bias.sub_(pre_conv.weight.sum(-1) @ constant)
        q.norm.running_mean.zero_()
        q.norm.running_var.fill_(NEUTRAL_VARIANCE)


def exported_codec(source: Path) -> dict[str, Tensor]:
    """Return the float32 tensors of an exported speech tokenizer, keyed by name in `Codec`."""
    tensors = {k: t.float() for k, t in load_file(source / "speech_tokenizer" / "model.safetensors").items()}
    state = {k: t for k, t in tensors.items() if ".quantizer." not in k}
    name = "encoder.quantizer.{}_residual_vector_quantizer.input_proj.weight"
    state["quantizer.input_proj.weight"] = torch.cat([tensors[name.format(x)] for x in ("semantic", "acoustic")])
    for name in ("first", "rest"):
        state[f"quantizer.{name}_out.weight"] = tensors[f"decoder.quantizer.rvq_{name}.output_proj.weight"]
    books = ["first.vq.layers.0", *(f"rest.vq.layers.{i}" for i in range(SIZES.code2wav.num_quantizers - 1))]
    sums = torch.stack([tensors[f"decoder.quantizer.rvq_{book}._codebook.embedding_sum"] for book in books])
    state |= {"quantizer.sums": sums, "quantizer.usage": torch.ones(sums.shape[:2]), "quantizer.active": torch.ones(())}
    state["quantizer.norm.running_var"] = torch.full((2 * sums.shape[2],), NEUTRAL_VARIANCE)
    return state
