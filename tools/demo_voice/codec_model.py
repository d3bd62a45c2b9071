"""Speech tokenizer for training: Mimi encoder, split RVQ and Code2Wav.

Weights have the published key names. There are two differences from the exported network. First, there is a BatchNorm
before the quantizer. `fold` merges the BatchNorm into the input projections and the first codebooks. Second, codebooks
are stored as running sums of an exponential average.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import config  # noqa: F401  # It makes the runtime importable.
from runtime.model.config import SpeechEncoderConfig
from runtime.model.layers import LayerScale, rotary, rotate
from runtime.model.speech_encoder import EncoderTransformer, PaddedConv, SEANet


def snake(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Apply SnakeBeta: x + sin^2(x e^alpha) / (e^beta + 1e-9).

    Shapes: x [B, C, T]; alpha, beta [C].
    """
    return x + torch.sin(x * alpha.exp()[:, None]).square() / (beta.exp()[:, None] + 1e-9)


class Snake(nn.Module):
    function = staticmethod(snake)

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        return Snake.function(x, self.alpha, self.beta)


class CausalConv(nn.Module):
    """Conv1d that pads on the left only."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, groups=groups)
        self.left = (kernel - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.pad(x, (self.left, 0)) if self.left else x)


class CausalTransposedConv(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)[..., : x.shape[-1] * self.stride]


class Attention(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))

    def forward(self, x: Tensor, table: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        q, k, v = (
            p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotate(q, *table).to(v.dtype), rotate(k, *table).to(v.dtype)
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))


class SwiGlu(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Transformer layer with normalization before each block and scaled residuals."""

    def __init__(self, hidden: int, heads: int, inner: int) -> None:
        super().__init__()
        self.self_attn = Attention(hidden, heads)
        self.mlp = SwiGlu(hidden, inner)
        self.input_layernorm = nn.RMSNorm(hidden, eps=1e-5)
        self.post_attention_layernorm = nn.RMSNorm(hidden, eps=1e-5)
        self.self_attn_layer_scale = LayerScale(hidden)
        self.mlp_layer_scale = LayerScale(hidden)

    def forward(self, x: Tensor, table: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        x = x + self.self_attn_layer_scale(self.self_attn(self.input_layernorm(x), table, mask))
        return x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))


class PreTransformer(nn.Module):
    """Causal transformer in which each position attends to at most `decoder_window` keys."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        hidden, heads = c["decoder_hidden"], c["decoder_heads"]
        self.head_dim = hidden // heads
        self.window = c["decoder_window"]
        self.input_proj = nn.Linear(c["latent_dim"], hidden)
        self.layers = nn.ModuleList(Layer(hidden, heads, c["decoder_ffn"]) for _ in range(c["decoder_layers"]))
        self.norm = nn.RMSNorm(hidden, eps=1e-5)
        self.output_proj = nn.Linear(hidden, c["latent_dim"])

    def forward(self, x: Tensor) -> Tensor:
        x = self.input_proj(x)
        at = torch.arange(x.shape[1], device=x.device)
        table, gap = rotary(at, self.head_dim, 10000.0, torch.float32), at[:, None] - at[None]
        mask = (gap >= 0) & (gap < self.window)
        for layer in self.layers:
            x = layer(x, table, mask)
        return self.output_proj(self.norm(x))


class ConvNeXt(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dwconv = CausalConv(dim, dim, 7, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1 = nn.Linear(dim, 4 * dim)
        self.pwconv2 = nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(torch.full((dim,), 0.2))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm(self.dwconv(x).transpose(1, 2))
        return x + (self.gamma * self.pwconv2(F.gelu(self.pwconv1(inner)))).transpose(1, 2)


class ResidualUnit(nn.Module):
    def __init__(self, dim: int, dilation: int) -> None:
        super().__init__()
        self.act1 = Snake(dim)
        self.conv1 = CausalConv(dim, dim, 7, dilation=dilation)
        self.act2 = Snake(dim)
        self.conv2 = CausalConv(dim, dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv2(self.act2(self.conv1(self.act1(x))))


class DecoderBlock(nn.Module):
    def __init__(self, inputs: int, rate: int) -> None:
        super().__init__()
        outputs = inputs // 2
        self.block = nn.ModuleList([Snake(inputs), CausalTransposedConv(inputs, outputs, 2 * rate, rate),
                                    *(ResidualUnit(outputs, d) for d in (1, 3, 9))])  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        for part in self.block:
            x = part(x)
        return x


class Code2Wav(nn.Module):
    """Decoder that converts quantized latents [B, 2 vq_dim, T] to samples [B, 1920 T]."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        latent, dim = c["latent_dim"], c["decoder_dim"]
        self.pre_conv = CausalConv(2 * c["vq_dim"], latent, 3)
        self.pre_transformer = PreTransformer(c)
        self.upsample = nn.ModuleList(
            nn.ModuleList([CausalTransposedConv(latent, latent, 2, 2), ConvNeXt(latent)]) for _ in range(2)
        )
        self.decoder = nn.ModuleList([CausalConv(latent, dim, 7),
                                      *(DecoderBlock(dim >> i, r) for i, r in enumerate((8, 5, 4, 3))),
                                      Snake(dim >> 4), CausalConv(dim >> 4, 1, 7)])  # fmt: skip

    def forward(self, z: Tensor) -> Tensor:
        x = self.pre_transformer(self.pre_conv(z).transpose(1, 2)).transpose(1, 2)
        for up, block in self.upsample:
            x = block(up(x))
        for part in self.decoder:
            x = part(x)
        return x[:, 0]


def encoder_config(c: dict) -> SpeechEncoderConfig:
    return SpeechEncoderConfig(
        num_filters=c["encoder_filters"], hidden_size=c["encoder_hidden"], intermediate_size=c["encoder_ffn"],
        num_hidden_layers=c["encoder_layers"], num_attention_heads=c["encoder_heads"],
        num_key_value_heads=c["encoder_heads"], head_dim=c["encoder_hidden"] // c["encoder_heads"],
        codebook_size=c["codebook_size"], codebook_dim=c["vq_dim"], num_quantizers=c["codebooks"],
        vector_quantization_hidden_dimension=c["vq_dim"],
    )  # fmt: skip


class MimiEncoder(nn.Module):
    """Speech encoder of the runtime without its quantizer.

    Shapes: the input has samples [B, 1920 T], and the output has latents [B, hidden, T].
    """

    def __init__(self, c: dict) -> None:
        super().__init__()
        sizes = encoder_config(c)
        self.encoder = SEANet(sizes)
        self.encoder_transformer = EncoderTransformer(sizes)
        self.downsample = PaddedConv(sizes.hidden_size, sizes.hidden_size, 4, stride=2, bias=False, pad="replicate")

    def forward(self, audio: Tensor) -> Tensor:
        x, _ = self.encoder(audio[:, None], None)
        return self.downsample(self.encoder_transformer(x.transpose(1, 2)).transpose(1, 2))


class SplitQuantizer(nn.Module):
    """Quantizer with one semantic codebook and K-1 acoustic codebooks.

    The semantic and the acoustic branch quantize different projections of the same latent.
    """

    def __init__(self, c: dict) -> None:
        super().__init__()
        self.dim = c["vq_dim"]
        self.books = c["codebooks"]
        self.size = c["codebook_size"]
        self.input_proj = nn.Conv1d(c["encoder_hidden"], 2 * self.dim, 1, bias=False)
        self.first_out = nn.Conv1d(self.dim, 2 * self.dim, 1, bias=False)
        self.rest_out = nn.Conv1d(self.dim, 2 * self.dim, 1, bias=False)
        self.norm = nn.BatchNorm1d(2 * self.dim, affine=False, momentum=0.02)
        self.folded = False
        self.register_buffer("sums", torch.randn(self.books, self.size, self.dim))
        self.register_buffer("usage", torch.ones(self.books, self.size))
        self.register_buffer("active", torch.zeros(()))

    @property
    def tables(self) -> Tensor:
        return self.sums / self.usage.clamp(min=1e-5)[..., None]

    def project(self, latent: Tensor) -> Tensor:
        """Return the normalized projections of both branches in one tensor, [B T, 2 dim]."""
        y = self.input_proj(latent.float()).transpose(1, 2).flatten(0, 1)
        return y if self.folded else self.norm(y)

    @torch.no_grad()
    def nearest(self, y: Tensor, tables: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the nearest codes, their codebook vectors, and the inputs of the codebooks.

        Shapes: codes [N, K]; vectors and inputs [K, N, dim].
        """
        codes, rows, targets = [], [], []
        rest = y[:, : self.dim]
        for k in range(self.books):
            if k == 1:
                rest = y[:, self.dim :]
            distance = tables[k].square().sum(-1) - 2 * rest @ tables[k].T
            code = distance.argmin(-1)
            row = tables[k][code]
            codes.append(code), rows.append(row), targets.append(rest)
            rest = rest - row
        return torch.stack(codes, -1), torch.stack(rows), torch.stack(targets)

    @torch.no_grad()
    def learn(self, codes: Tensor, targets: Tensor, decay: float, floor: float) -> None:
        """Move the codebooks towards their inputs, and replace unused vectors by random inputs.

        A CUDA graph can capture this function.
        """
        count = codes.shape[0]
        hot = targets.new_zeros(self.books, count, self.size).scatter_(2, codes.T[..., None], 1.0)
        usage = torch.lerp(hot.sum(1), self.usage, decay)
        sums = torch.lerp(hot.transpose(1, 2) @ targets, self.sums, decay)
        pick = torch.randint(count, (self.books, self.size), device=codes.device)
        spare = targets.gather(1, pick[..., None].expand(-1, -1, self.dim))
        mean = count / self.size
        dead = usage < floor * mean
        usage = torch.where(dead, torch.full_like(usage, mean), usage)
        sums = torch.where(dead[..., None], spare * mean, sums)
        self.usage.copy_(torch.where(self.active > 0, usage, self.usage))
        self.sums.copy_(torch.where(self.active > 0, sums, self.sums))

    @torch.no_grad()
    def initialise(self, y: Tensor, rounds: int = 12) -> None:
        """Initialize the codebooks by k-means, starting with the first, and enable quantization.

        The latents `y` have the shape [N, 2 dim].
        """
        rest = y[:, : self.dim]
        for k in range(self.books):
            if k == 1:
                rest = y[:, self.dim :]
            table = rest[torch.randperm(len(rest), device=y.device)[: self.size]].clone()
            if len(table) < self.size:
                table = table.repeat(-(-self.size // len(table)), 1)[: self.size]
            for _ in range(rounds):
                code = (table.square().sum(-1) - 2 * rest @ table.T).argmin(-1)
                hot = F.one_hot(code, self.size).to(rest.dtype)
                total = hot.sum(0)
                table = torch.where(total[:, None] > 0, hot.T @ rest / total.clamp(min=1)[:, None], table)
            mean = 1.0
            self.usage[k].fill_(mean)
            self.sums[k].copy_(table * mean)
            rest = rest - table[(table.square().sum(-1) - 2 * rest @ table.T).argmin(-1)]
        self.active.fill_(1.0)

    def combine(self, first: Tensor, rest: Tensor) -> Tensor:
        """Project the vectors of both branches, and return the input of Code2Wav.

        Shapes: first and rest [B, T, dim]; result [B, 2 dim, T].
        """
        return self.first_out(first.transpose(1, 2)) + self.rest_out(rest.transpose(1, 2))

    def decode(self, codes: Tensor) -> Tensor:
        """Return the quantized latents [B, 2 dim, T] of codes [B, T, K]."""
        tables = self.tables
        parts = [F.embedding(codes[..., k], tables[k]) for k in range(self.books)]
        return self.combine(parts[0], torch.stack(parts[1:]).sum(0))


class Codec(nn.Module):
    def __init__(self, c: dict) -> None:
        super().__init__()
        self.encoder = MimiEncoder(c)
        self.quantizer = SplitQuantizer(c)
        self.decoder = Code2Wav(c)
        for module in self.modules():
            if isinstance(module, LayerScale):
                nn.init.constant_(module.scale, 0.2)

    @torch.no_grad()
    def encode(self, audio: Tensor) -> Tensor:
        """Encode samples [B, 1920 T] to codes [B, T, K]."""
        latent = self.encoder(audio)
        codes, _, _ = self.quantizer.nearest(self.quantizer.project(latent), self.quantizer.tables)
        return codes.unflatten(0, (audio.shape[0], -1))

    def decode(self, codes: Tensor) -> Tensor:
        """Decode codes [B, T, K] to samples [B, 1920 T]."""
        return self.decoder(self.quantizer.decode(codes))

    @torch.no_grad()
    def fold(self) -> float:
        """Fold the BatchNorm into the weights and codebooks, and return its largest shift.

        The zero padding at the edges of the decoder's input does not have this shift.
        """
        q = self.quantizer
        if q.folded:
            return 0.0
        # With a BatchNorm, the latents grow without bound. Their projections would then be too small for half
        # precision.
        size = q.norm.running_var.mean().sqrt()
        self.encoder.downsample.conv.weight.div_(size)
        q.norm.running_mean.div_(size)
        q.norm.running_var.div_(size.square())
        sigma = (q.norm.running_var + q.norm.eps / size.square()).sqrt()
        shift = q.norm.running_mean / sigma
        q.input_proj.weight.div_(sigma[:, None, None])
        q.sums[0] += shift[: q.dim] * q.usage[0][:, None]
        q.sums[1] += shift[q.dim :] * q.usage[1][:, None]
        # The decoder's input is now shifted by a constant, which its first convolution subtracts.
        constant = q.first_out.weight[..., 0] @ shift[: q.dim] + q.rest_out.weight[..., 0] @ shift[q.dim :]
        self.decoder.pre_conv.conv.bias.sub_(self.decoder.pre_conv.conv.weight.sum(-1) @ constant)
        q.folded = True
        return float(shift.abs().max())


class Heads(nn.Module):
    """Auxiliary networks that predict phones and F0 from code vectors during training.

    Phones are predicted from codebook 0 and also from all codebooks. F0 is predicted from codebooks 1 and 2.
    """

    def __init__(self, c: dict, phones: int) -> None:
        super().__init__()
        self.phone = nn.Linear(c["vq_dim"], 4 * phones)
        self.f0 = nn.Sequential(nn.Linear(c["vq_dim"], 256), nn.GELU(), nn.Linear(256, 8))
        self.read = nn.Sequential(CausalConv(2 * c["vq_dim"], 256, 3), nn.GELU(), CausalConv(256, 4 * phones, 1))
