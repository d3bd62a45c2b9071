"""Talker, code predictor and speaker encoder in training form, under the published key names."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from codec_model import SwiGlu, rope, rotate
from spectral import mel_matrix
from vocabulary import CODEC_VOCAB, CODES


class HeadNorm(nn.RMSNorm):
    """RMSNorm of queries and keys in autocast's bfloat16; a float32 weight would prevent the fused operation."""

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class Attention(nn.Module):
    def __init__(self, c: dict) -> None:
        super().__init__()
        hidden, dim = c["hidden"], c["head_dim"]
        self.heads = c["heads"]
        self.kv_heads = c["kv_heads"]
        self.dim = dim
        self.q_proj = nn.Linear(hidden, self.heads * dim, bias=False)
        self.k_proj = nn.Linear(hidden, self.kv_heads * dim, bias=False)
        self.v_proj = nn.Linear(hidden, self.kv_heads * dim, bias=False)
        self.o_proj = nn.Linear(self.heads * dim, hidden, bias=False)
        self.q_norm = HeadNorm(dim, eps=1e-6)
        self.k_norm = HeadNorm(dim, eps=1e-6)

    def forward(self, x: Tensor, table: tuple[Tensor, Tensor], cache: list | None = None,
                mask: Tensor | None = None) -> Tensor:  # fmt: skip
        q = self.q_norm(self.q_proj(x).unflatten(-1, (self.heads, self.dim))).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).unflatten(-1, (self.kv_heads, self.dim))).transpose(1, 2)
        v = self.v_proj(x).unflatten(-1, (self.kv_heads, self.dim)).transpose(1, 2)
        q, k = rotate(q, table).to(v.dtype), rotate(k, table).to(v.dtype)
        if cache is not None:
            if cache:
                k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
            cache[:] = [k, v]
        groups = self.heads // self.kv_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        causal = mask is None and q.shape[2] > 1
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, c: dict, ffn: int) -> None:
        super().__init__()
        self.self_attn = Attention(c)
        self.mlp = SwiGlu(c["hidden"], ffn)
        self.input_layernorm = nn.RMSNorm(c["hidden"], eps=1e-6)
        self.post_attention_layernorm = nn.RMSNorm(c["hidden"], eps=1e-6)
        self.drop = nn.Dropout(c["dropout"])

    def forward(self, x: Tensor, table: tuple[Tensor, Tensor], cache: list | None = None,
                mask: Tensor | None = None) -> Tensor:  # fmt: skip
        x = x + self.drop(self.self_attn(self.input_layernorm(x), table, cache, mask))
        return x + self.drop(self.mlp(self.post_attention_layernorm(x)))


class Body(nn.Module):
    """Decoder layers and the final norm; a cache is a list with one list per layer."""

    def __init__(self, c: dict, layers: int, ffn: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(c, ffn) for _ in range(layers))
        self.norm = nn.RMSNorm(c["hidden"], eps=1e-6)
        self.dim = c["head_dim"]
        self.theta = c["rope_theta"]

    def run(self, x: Tensor, cache: list | None = None, start: int = 0, mask: Tensor | None = None) -> Tensor:
        table = rope(x.shape[1], self.dim, self.theta, x.device, start)
        for i, layer in enumerate(self.layers):
            x = layer(x, table, cache[i] if cache is not None else None, mask)
        return self.norm(x)


class TalkerBody(Body):
    def __init__(self, c: dict, text_rows: int) -> None:
        super().__init__(c, c["layers"], c["ffn"])
        self.text_embedding = nn.Embedding(text_rows, c["text_dim"])
        self.codec_embedding = nn.Embedding(CODEC_VOCAB, c["hidden"])


class PredictorBody(Body):
    def __init__(self, c: dict, books: int) -> None:
        super().__init__(c, c["predictor_layers"], c["predictor_ffn"])
        self.codec_embedding = nn.ModuleList(nn.Embedding(CODES, c["hidden"]) for _ in range(books - 1))


class Predictor(nn.Module):
    def __init__(self, c: dict, books: int) -> None:
        super().__init__()
        self.model = PredictorBody(c, books)
        self.lm_head = nn.ModuleList(nn.Linear(c["hidden"], CODES, bias=False) for _ in range(books - 1))


class TextProjection(nn.Module):
    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(inputs, inputs)
        self.linear_fc2 = nn.Linear(inputs, hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_fc2(F.silu(self.linear_fc1(x)))


class Talker(nn.Module):
    def __init__(self, c: dict, books: int, text_rows: int) -> None:
        super().__init__()
        self.model = TalkerBody(c, text_rows)
        self.text_projection = TextProjection(c["text_dim"], c["hidden"])
        self.codec_head = nn.Linear(c["hidden"], CODEC_VOCAB, bias=False)
        self.code_predictor = Predictor(c, books)


class Tdnn(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, padding="same", padding_mode="reflect")

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv(x))


class Res2Net(nn.Module):
    def __init__(self, channels: int, kernel: int, dilation: int, scale: int = 8) -> None:
        super().__init__()
        part = channels // scale
        self.scale = scale
        self.blocks = nn.ModuleList(Tdnn(part, part, kernel, dilation) for _ in range(scale - 1))

    def forward(self, x: Tensor) -> Tensor:
        parts = list(x.chunk(self.scale, 1))
        made = [parts[0]]
        for i, block in enumerate(self.blocks):
            made.append(block(parts[i + 1] if i == 0 else parts[i + 1] + made[-1]))
        return torch.cat(made, 1)


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(channels, inner, 1)
        self.conv2 = nn.Conv1d(inner, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.conv2(F.relu(self.conv1(x.mean(2, keepdim=True)))))


class SeRes2Net(nn.Module):
    def __init__(self, channels: int, inner: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.tdnn1 = Tdnn(channels, channels, 1)
        self.tdnn2 = Tdnn(channels, channels, 1)
        self.res2net_block = Res2Net(channels, kernel, dilation)
        self.se_block = SqueezeExcite(channels, inner)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.se_block(self.tdnn2(self.res2net_block(self.tdnn1(x))))


class AttentivePooling(nn.Module):
    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.tdnn = Tdnn(3 * channels, inner, 1)
        self.conv = nn.Conv1d(inner, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        mean, std = x.mean(2, keepdim=True), x.var(2, correction=0, keepdim=True).clamp(min=1e-12).sqrt()
        joined = torch.cat((x, mean.expand_as(x), std.expand_as(x)), 1)
        weight = torch.softmax(self.conv(torch.tanh(self.tdnn(joined))), 2)
        mean = (weight * x).sum(2)
        std = (weight * (x - mean[..., None]).square()).sum(2).clamp(min=1e-12).sqrt()
        return torch.cat((mean, std), 1)[..., None]


class SpeakerEncoder(nn.Module):
    """ECAPA-TDNN over log-mels [B, mels, T]; the x-vector is one talker embedding [B, hidden]."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        n = c["speaker_channels"]
        self.blocks = nn.ModuleList([Tdnn(c["speaker_mels"], n, 5), *(SeRes2Net(n, n // 4, 3, d) for d in (2, 3, 4))])
        self.mfa = Tdnn(3 * n, 3 * n, 1)
        self.asp = AttentivePooling(3 * n, n // 4)
        self.fc = nn.Conv1d(6 * n, c["hidden"], 1)

    def forward(self, mel: Tensor) -> Tensor:
        x, outputs = mel, []
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        return self.fc(self.asp(self.mfa(torch.cat(outputs[1:], 1))))[..., 0]


class MelFront(nn.Module):
    """The published 24 kHz log-mel front end. Samples [B, N] to [B, 128, N // 256]."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(1024), persistent=False)
        self.register_buffer("bank", mel_matrix(513, 128), persistent=False)

    def forward(self, audio: Tensor) -> Tensor:
        x = F.pad(audio[:, None], (384, 384), mode="reflect")[:, 0]
        s = torch.stft(x, 1024, 256, window=self.window, center=False, return_complex=True)
        magnitude = torch.sqrt(s.real.square() + s.imag.square() + 1e-9)
        return (self.bank @ magnitude).clamp(min=1e-5).log()


class Voice(nn.Module):
    """Networks of model.safetensors: talker, code predictor and speaker encoder."""

    def __init__(self, c: dict, books: int, text_rows: int) -> None:
        super().__init__()
        self.talker = Talker(c, books, text_rows)
        self.speaker_encoder = SpeakerEncoder(c)
        self.books = books
        self.apply(self._start)

    @staticmethod
    def _start(module: nn.Module) -> None:
        if isinstance(module, TextProjection):  # Text must have the scale of the codec embeddings to which it is added.
            nn.init.normal_(module.linear_fc1.weight, std=0.09)
            nn.init.normal_(module.linear_fc2.weight, std=0.09)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.04)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.3)
        elif isinstance(module, TalkerBody):
            nn.init.normal_(module.text_embedding.weight)

    def text(self, ids: Tensor) -> Tensor:
        return self.talker.text_projection(self.talker.model.text_embedding(ids))

    def frames(self, codes: Tensor) -> Tensor:
        """Return the sum of all codebooks' embeddings. Shapes: [..., K] to [..., hidden]."""
        x = self.talker.model.codec_embedding(codes[..., 0])
        for k, table in enumerate(self.talker.code_predictor.model.codec_embedding):
            x = x + table(codes[..., k + 1])
        return x

    def predictor_logits(self, hidden: Tensor, codes: Tensor) -> list[Tensor]:
        """Return teacher-forced logits of codes 1 to K-1. Shapes: hidden [N, hidden]; codes [N, K]."""
        tables = self.talker.code_predictor.model.codec_embedding
        inputs = [hidden, self.talker.model.codec_embedding(codes[:, 0])]
        inputs += [tables[k](codes[:, k + 1]) for k in range(self.books - 2)]
        y = self.talker.code_predictor.model.run(torch.stack(inputs, 1))
        return [head(y[:, k + 1]) for k, head in enumerate(self.talker.code_predictor.lm_head)]
