"""Talker, code predictor and speaker encoder for training, with the published key names."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from codec_model import SwiGlu
from runtime.model.config import SpeakerEncoderConfig
from runtime.model.layers import rotary, rotate
from runtime.model.speaker_encoder import SpeakerEncoder, log_mel
from vocabulary import CODEC_VOCAB, CODES


class HeadNorm(nn.RMSNorm):
    """RMSNorm of queries and keys whose weight is converted to the input's data type.

    Under autocast, the input is bfloat16. A float32 weight would prevent the fused operation.
    """

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

    def forward(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        q = self.q_norm(self.q_proj(x).unflatten(-1, (self.heads, self.dim))).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).unflatten(-1, (self.kv_heads, self.dim))).transpose(1, 2)
        v = self.v_proj(x).unflatten(-1, (self.kv_heads, self.dim)).transpose(1, 2)
        q, k = rotate(q, *table).to(v.dtype), rotate(k, *table).to(v.dtype)
        groups = self.heads // self.kv_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, c: dict, ffn: int) -> None:
        super().__init__()
        self.self_attn = Attention(c)
        self.mlp = SwiGlu(c["hidden"], ffn)
        self.input_layernorm = nn.RMSNorm(c["hidden"], eps=1e-6)
        self.post_attention_layernorm = nn.RMSNorm(c["hidden"], eps=1e-6)
        self.drop = nn.Dropout(c["dropout"])

    def forward(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        x = x + self.drop(self.self_attn(self.input_layernorm(x), table))
        return x + self.drop(self.mlp(self.post_attention_layernorm(x)))


class Body(nn.Module):
    """Transformer decoder layers and the final norm."""

    def __init__(self, c: dict, layers: int, ffn: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(c, ffn) for _ in range(layers))
        self.norm = nn.RMSNorm(c["hidden"], eps=1e-6)
        self.dim = c["head_dim"]
        self.theta = c["rope_theta"]

    def run(self, x: Tensor) -> Tensor:
        table = rotary(torch.arange(x.shape[1], device=x.device), self.dim, self.theta, torch.float32)
        for layer in self.layers:
            x = layer(x, table)
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


def speaker_config(c: dict) -> SpeakerEncoderConfig:
    n = c["speaker_channels"]
    return SpeakerEncoderConfig(enc_dim=c["hidden"], mel_dim=c["speaker_mels"], enc_channels=(n, n, n, n, 3 * n),
                                enc_attention_channels=n // 4, enc_se_channels=n // 4)  # fmt: skip


class Voice(nn.Module):
    """Networks of model.safetensors: talker, code predictor and speaker encoder."""

    def __init__(self, c: dict, books: int, text_rows: int) -> None:
        super().__init__()
        self.talker = Talker(c, books, text_rows)
        self.speaker_encoder = SpeakerEncoder(speaker_config(c))
        self.books = books
        self.apply(self._start)

    @staticmethod
    def _start(module: nn.Module) -> None:
        # Text embeddings must have the same scale as the codec embeddings to which they are added.
        if isinstance(module, TextProjection):
            nn.init.normal_(module.linear_fc1.weight, std=0.09)
            nn.init.normal_(module.linear_fc2.weight, std=0.09)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.04)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.3)
        elif isinstance(module, TalkerBody):
            nn.init.normal_(module.text_embedding.weight)

    def x_vectors(self, audio: Tensor) -> Tensor:
        """Return the x-vectors [B, hidden] of 24 kHz audio [B, N]."""
        return self.speaker_encoder.encode(log_mel(audio, self.speaker_encoder.prepare()))

    def text(self, ids: Tensor) -> Tensor:
        return self.talker.text_projection(self.talker.model.text_embedding(ids))

    def frames(self, codes: Tensor) -> Tensor:
        """Return the sum of a frame's code embeddings over all codebooks.

        Shapes: codes [..., K]; result [..., hidden].
        """
        x = self.talker.model.codec_embedding(codes[..., 0])
        for k, table in enumerate(self.talker.code_predictor.model.codec_embedding):
            x = x + table(codes[..., k + 1])
        return x

    def predictor_logits(self, hidden: Tensor, codes: Tensor) -> list[Tensor]:
        """Return the logits of codes 1 to K-1 when the predictor is fed the true codes.

        Shapes: hidden [N, hidden]; codes [N, K].
        """
        tables = self.talker.code_predictor.model.codec_embedding
        inputs = [hidden, self.talker.model.codec_embedding(codes[:, 0])]
        inputs += [tables[k](codes[:, k + 1]) for k in range(self.books - 2)]
        y = self.talker.code_predictor.model.run(torch.stack(inputs, 1))
        return [head(y[:, k + 1]) for k, head in enumerate(self.talker.code_predictor.lm_head)]
