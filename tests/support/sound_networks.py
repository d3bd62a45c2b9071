"""Code2Wav networks (decoders from codes to audio) with random weights."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from runtime.model.code2wav import Code2Wav
from runtime.model.config import Code2WavConfig
from runtime.model.products import Conv, Linear, TransposedConv

LOUDNESS = 0.2  # Standard deviation of the audio samples, whose maximum is 1.


def published() -> Code2WavConfig:
    """Return the Code2Wav configuration of the published checkpoints (docs/model.md 1.3)."""
    # All other values are the defaults.
    return Code2WavConfig(codebook_dim=512, latent_dim=1024, hidden_size=512, head_dim=64, intermediate_size=1024)


def random_network(config: Code2WavConfig, device: torch.device, seed: int = 0) -> Code2Wav:
    """Return a Code2Wav with random weights that generates audible audio without clipping."""
    torch.manual_seed(seed)
    with torch.device(device):
        network = Code2Wav(config)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            last = name.rsplit(".", 1)[-1]
            if last in ("alpha", "beta"):
                weight.normal_(0, 0.3)
            elif last == "cluster_usage":
                weight.uniform_(0.5, 1.5)
            elif last in ("gamma", "scale"):
                weight.fill_(0.3)
            elif "norm" in name and last == "weight":
                weight.normal_(1, 0.1)
            elif weight.dim() < 2:
                weight.normal_(0, 0.02)
            elif last == "embedding_sum":
                weight.normal_(0, 0.3)
            else:
                inputs = weight[0].numel()
                if "block.1.conv" in name or ("upsample" in name and weight.dim() == 3 and "dwconv" not in name):
                    # The first dimension of a transposed convolution is its input channels.
                    inputs = weight.shape[0] * (2 if "block.1" in name else 1)
                weight.normal_(0, 0.7 / inputs**0.5)
        parts: Any = network.decoder  # The type stubs of torch do not cover the elements of a ModuleList.
        _, *blocks, _, end = parts
        for block in blocks:  # Scale the residual branches so that they do not dominate the sum.
            for unit in block.block[2:]:
                unit.conv2.conv.weight.mul_(0.4)
    network.requires_grad_(False)
    last = end.conv
    last.weight.mul_(0.001)  # Keep the audio below the clipping limit.
    codes = torch.randint(0, config.codebook_size, (1, 4, config.num_quantizers), device=device)
    wave = network(codes, network.fresh_state(1))
    last.weight.mul_(LOUDNESS / wave.std())
    last.bias.zero_()
    return network


def rounded(network: Code2Wav) -> Code2Wav:
    """Return a copy of a Code2Wav network that computes with bfloat16 rounding.

    The weights and inputs of matrix products are rounded to bfloat16, and sums are in float32.
    """

    def narrow(value: Tensor) -> Tensor:
        return value.bfloat16().to(value.dtype)

    other = copy.deepcopy(network)
    for weight in other.parameters():
        if weight.dim() > 1:
            weight.copy_(narrow(weight))
    for module in other.modules():
        if isinstance(module, Linear | Conv | TransposedConv):
            module.register_forward_pre_hook(lambda _, inputs: (narrow(inputs[0]),))
    return other


def snr_db(truth: Tensor, other: Tensor) -> float:
    """Return the signal-to-noise ratio of `other` in dB, with `truth` as the signal."""
    noise = (truth - other).double().pow(2).mean()
    return float(10 * torch.log10(truth.double().pow(2).mean() / noise.clamp(min=1e-30)))


# Network with the published structure and fewer samples per frame. No tile is as wide as the 12 channels of the last
# block.
SMALL = replace(
    published(),
    codebook_size=64,
    num_quantizers=4,
    codebook_dim=32,
    latent_dim=24,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    sliding_window=7,
    decoder_dim=48,
    upsample_rates=(3, 2),
    upsampling_ratios=(2, 2),
)
