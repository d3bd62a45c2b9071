"""Networks of Code2Wav with random weights, made in memory."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.sound import published, random_network

__all__ = ["SMALL", "random_network"]

# All that the published one has, with few samples a frame. 12 channels in the last block are no tile's width.
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
