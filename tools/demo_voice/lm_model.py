"""Talker, code predictor and speaker encoder for training, with the published key names."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from codec_model import Layer, run_layers
from config import CONFIG, VOICE
from runtime.model.checkpoints.config_files import read_model_config
from runtime.model.config import DecoderConfig, TalkerConfig
from runtime.model.speaker_encoder import SpeakerEncoder, log_mel

SIZES = read_model_config(VOICE)


class HeadNorm(nn.RMSNorm):
    """RMSNorm of queries and keys, with the weight converted to the input's data type.

    Under autocast, the input is bfloat16. A float32 weight would prevent the fused operation.
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class Body(nn.Module):
    """Stack of transformer layers, followed by the final norm."""

    def __init__(self, c: DecoderConfig) -> None:
        super().__init__()
        drop, norm = partial(nn.Dropout, CONFIG["lm"]["dropout"]), partial(HeadNorm, eps=c.rms_norm_eps)
        self.layers = nn.ModuleList(Layer(c, drop, norm) for _ in range(c.num_hidden_layers))
        self.norm = nn.RMSNorm(c.hidden_size, eps=c.rms_norm_eps)
        self.theta = c.rope_theta

    def run(self, x: Tensor) -> Tensor:
        return self.norm(run_layers(x, self.layers, self.theta))


class Predictor(nn.Module):
    def __init__(self, c: DecoderConfig) -> None:
        super().__init__()
        size, hidden, count = c.vocab_size, c.hidden_size, c.num_code_groups - 1
        self.model = Body(c)
        self.model.codec_embedding = nn.ModuleList(nn.Embedding(size, hidden) for _ in range(count))
        self.lm_head = nn.ModuleList(nn.Linear(hidden, size, bias=False) for _ in range(count))


class Talker(nn.Module):
    def __init__(self, c: TalkerConfig, text_rows: int) -> None:
        super().__init__()
        hidden, text = c.hidden_size, c.text_hidden_size
        self.model = Body(c)
        self.model.text_embedding = nn.Embedding(text_rows, text)
        self.model.codec_embedding = nn.Embedding(c.vocab_size, hidden)
        first, second = nn.Linear(text, text), nn.Linear(text, hidden)
        self.text_projection = nn.Sequential(OrderedDict(linear_fc1=first, act=nn.SiLU(), linear_fc2=second))
        self.codec_head = nn.Linear(hidden, c.vocab_size, bias=False)
        self.code_predictor = Predictor(SIZES.predictor)


def read_voice(path: Path) -> dict[str, Tensor]:
    """Return the weights from a file of train_lm.py or the folder of an exported voice."""
    if path.is_dir():
        return {k: t.float() for k, t in load_file(path / "model.safetensors").items()}
    return torch.load(path, map_location="cpu", weights_only=True)


class Voice(nn.Module):
    """Networks that model.safetensors contains: talker, code predictor and speaker encoder."""

    def __init__(self, text_rows: int) -> None:
        super().__init__()
        self.talker = Talker(SIZES.talker, text_rows)
        self.speaker_encoder = SpeakerEncoder(SIZES.speaker_encoder)
        self.apply(self._start)

    def _start(self, module: nn.Module) -> None:
        # Text embeddings must have the same scale as the codec embeddings to which they are added.
        if module is self.talker.text_projection:
            nn.init.normal_(module.linear_fc1.weight, std=0.09)
            nn.init.normal_(module.linear_fc2.weight, std=0.09)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.04)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.3)
        elif module is self.talker.model:
            nn.init.normal_(module.text_embedding.weight)

    def x_vectors(self, audio: Tensor) -> Tensor:
        """Return the x-vectors [B, hidden] (speaker embeddings) of 24 kHz audio [B, N]."""
        return self.speaker_encoder.encode(log_mel(audio, self.speaker_encoder.prepare()))

    def text(self, ids: Tensor) -> Tensor:
        return self.talker.text_projection(self.talker.model.text_embedding(ids))

    def frames(self, codes: Tensor) -> Tensor:
        """Return the sum [..., hidden] of the embeddings of a frame's codes [..., K]."""
        x = self.talker.model.codec_embedding(codes[..., 0])
        for k, table in enumerate(self.talker.code_predictor.model.codec_embedding):
            x = x + table(codes[..., k + 1])
        return x

    def predictor_logits(self, hidden: Tensor, codes: Tensor) -> list[Tensor]:
        """Return the logits of codes 1 to K-1, predicted with teacher forcing.

        Shapes: hidden [N, hidden]; codes [N, K].
        """
        predictor = self.talker.code_predictor
        fed = [self.talker.model.codec_embedding, *predictor.model.codec_embedding][:-1]
        inputs = [hidden, *(table(codes[:, k]) for k, table in enumerate(fed))]
        y = predictor.model.run(torch.stack(inputs, 1))
        return [head(y[:, k + 1]) for k, head in enumerate(predictor.lm_head)]
