"""Tells the shape of a frame's products, and how large their weights are."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch

from runtime.device.quantized import Quantization, quantized_bytes
from runtime.model.config import DecoderConfig, ModelConfig

Weights = tuple[torch.dtype, Quantization | None]  # of talker and code predictor


@dataclass(frozen=True, slots=True)
class FrameShape:
    """What of a checkpoint's configuration says how long a frame takes."""

    talker: DecoderConfig
    predictor: DecoderConfig

    @classmethod
    def of(cls, config: ModelConfig) -> FrameShape:
        return cls(_plain(config.talker), _plain(config.predictor))

    @property
    def reads(self) -> int:
        """Numbers of the weights that one frame reads: the talker once, the code predictor for each further code."""
        again = (self._passes - 1) * self.predictor.num_hidden_layers * layer_size(self.predictor)
        return self.products + again

    @property
    def products(self) -> int:
        """Numbers of the weights of layers and heads, as they are stored."""
        talker, predictor = self.talker, self.predictor
        heads = talker.vocab_size * talker.hidden_size + self._passes * predictor.vocab_size * predictor.hidden_size
        return heads + sum(config.num_hidden_layers * layer_size(config) for config in (talker, predictor))

    @property
    def _passes(self) -> int:
        return self.predictor.num_code_groups - 1


def _plain(config: DecoderConfig) -> DecoderConfig:
    """What a talker's configuration has in common with a code predictor's."""
    return DecoderConfig(**{spec.name: getattr(config, spec.name) for spec in fields(DecoderConfig)})


def layer_size(config: DecoderConfig) -> int:
    """Numbers of the products of one decoder layer."""
    heads = 2 * config.num_attention_heads + 2 * config.num_key_value_heads
    return config.hidden_size * (heads * config.head_dim + 3 * config.intermediate_size)


def layer_bytes(config: DecoderConfig, dtype: torch.dtype, quantization: Quantization | None) -> int:
    """Bytes of the same with such weights."""
    if quantization is None:
        return layer_size(config) * dtype.itemsize
    return quantized_bytes(layer_size(config) // config.hidden_size, config.hidden_size, quantization)
