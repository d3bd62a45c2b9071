"""Sampling of codes with the rules of the reference implementation (docs/model.md 4).

The rules are applied in the same order. A sample is the argmax of scores plus Gumbel noise, and the noise is a hash of
(seed, frame, codebook, code). Therefore a seed gives the same codes in any batch and slot, and graphs can capture all
operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

MIN_FRAMES = 2  # Minimum number of frames before EOS is allowed (docs/model.md 4).

MASK_32 = 0xFFFFFFFF
GOLDEN = 0x9E3779B9


@dataclass(frozen=True, slots=True)
class BatchSamplingParams:
    """Sampling settings of a batch for one network: the talker or the code predictor.

    Shapes: temperature, top_p [B] float32; top_k [B] int64 (vocabulary size if off); greedy [B] bool.
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    greedy: Tensor
    widest_k: int  # Largest top_k in the batch, which is known on the host without a synchronization.
    any_top_p: bool  # True if any row has top_p below 1.
    # True if one sort is used for both top-k and top-p, because sorting is slow on the device.
    sorts_once: bool = False


def gumbel_noise(seed: Tensor, frame: Tensor, groups: int, width: int) -> Tensor:
    """Return the Gumbel noise of one frame for every codebook and code.

    The noise is a hash of seed, frame, codebook and code.

    Shapes: seed, frame [B] int64, not negative; result [B, groups, width] float32.
    """
    codebook = torch.arange(groups, device=seed.device)
    key = _mix(seed & MASK_32) ^ (seed >> 32)
    key = _mix(key + GOLDEN * (frame & MASK_32))[:, None]
    key = _mix(key + GOLDEN * (codebook + 1))  # Shape: [B, groups].
    code = torch.arange(1, width + 1, device=seed.device) * GOLDEN & MASK_32
    bits = _mix(_mix(key[..., None] ^ code) + key[..., None])
    # The number consists of 23 random bits plus one half, so the float32 value is never 0 or 1.
    uniform = ((bits >> 9).float() + 0.5) * 2.0**-23
    return -torch.log(-torch.log(uniform))


def apply_talker_rules(
    logits: Tensor, seen: Tensor, penalty: Tensor, frame: Tensor, eos_banned_until: Tensor, allowed: Tensor, eos: int
) -> Tensor:
    """Apply the repetition penalty to the logits of code 0, and ban early EOS and invalid ids.

    Shapes: logits [B, V] float32; seen [B, V] bool, True for ids sampled before; penalty [B] float32; frame [B] int64,
    number of generated frames; eos_banned_until [B] int64, number of frames before EOS is allowed, at least
    `MIN_FRAMES`; allowed [V] bool, True for codes and EOS; result [B, V].
    """
    penalised = torch.where(logits > 0, logits / penalty[:, None], logits * penalty[:, None])
    scores = torch.where(seen, penalised, logits).masked_fill(~allowed, -torch.inf)
    is_eos_banned = frame < eos_banned_until.clamp(min=MIN_FRAMES)
    scores[:, eos] = torch.where(is_eos_banned, -torch.inf, scores[:, eos])
    return scores


def sample_codes(scores: Tensor, level: BatchSamplingParams, noise: Tensor | None) -> Tensor:
    """Sample one code per row from its scores with temperature, top-k and top-p.

    The code is the argmax of the scores plus noise, or of the scores if the row is greedy.

    Shapes: scores [B, V] float32; noise [B, V] float32, or None if every row is greedy; result [B] int64.
    """
    if noise is None:
        return scores.argmax(dim=-1)
    warm = scores / level.temperature[:, None]
    if level.any_top_p and level.sorts_once:
        allowed_scores = apply_top_k_top_p(warm, level)
    else:
        allowed_scores = _keep_top_p(_keep_top_k(warm, level), level) if level.any_top_p else _keep_top_k(warm, level)
    return torch.where(level.greedy[:, None], scores, allowed_scores + noise).argmax(dim=-1)


def _keep_top_k(scores: Tensor, level: BatchSamplingParams) -> Tensor:
    """Ban scores below the k-th largest score, but keep ties, like the reference."""
    if level.widest_k >= scores.shape[-1]:
        largest = scores.sort(dim=-1, descending=True).values
    else:
        largest = scores.topk(level.widest_k, dim=-1).values
    last = largest.gather(-1, (level.top_k[:, None] - 1).clamp(max=largest.shape[-1] - 1))
    return scores.masked_fill(scores < last, -torch.inf)


def _keep_top_p(scores: Tensor, level: BatchSamplingParams) -> Tensor:
    """Ban the least probable codes whose probabilities sum to at most 1 - p.

    The sum for a code includes all codes that are not more probable, so equal scores are treated equally.
    """
    ascending = scores.sort(dim=-1).values
    # Index of each score in ascending order. Equal scores all get the index of the last one.
    up_to = torch.searchsorted(ascending, scores, right=True) - 1
    mass = ascending.softmax(dim=-1).cumsum(dim=-1).gather(-1, up_to)
    banned = (mass <= 1 - level.top_p[:, None]) & (level.top_p < 1)[:, None] & (scores < ascending[:, -1:])
    return scores.masked_fill(banned, -torch.inf)


def apply_top_k_top_p(scores: Tensor, level: BatchSamplingParams) -> Tensor:
    """Apply top-k and top-p with one sort, and ban all codes below one threshold.

    Both rules keep the codes with the highest scores, so each rule is equivalent to a threshold. The larger of the two
    thresholds satisfies both rules. Only operators that run on NPU cores are used.

    Shapes: scores, result [B, V].
    """
    ascending = scores.sort(dim=-1).values
    last = ascending.gather(-1, (ascending.shape[-1] - level.top_k[:, None]).clamp(min=0))
    allowed_scores = ascending.masked_fill(ascending < last, -torch.inf)
    mass = allowed_scores.softmax(dim=-1).cumsum(dim=-1)
    # The value -1 keeps all codes if top-p is off.
    excluded_mass = torch.where(level.top_p < 1, 1 - level.top_p, -1.0)[:, None]
    least = allowed_scores.masked_fill(mass <= excluded_mass, torch.inf).amin(dim=-1, keepdim=True)
    threshold = torch.maximum(torch.minimum(least, ascending[:, -1:]), last)
    return scores.masked_fill(scores < threshold, -torch.inf)


def _mix(x: Tensor) -> Tensor:
    """Mix 32 bits with lowbias32 (Wellons 2018).

    The numbers are int64, because backends differ in 32-bit overflow.
    """
    x = x & MASK_32
    x = (x ^ (x >> 16)) * 0x7FEB352D & MASK_32
    x = (x ^ (x >> 15)) * 0x846CA68B & MASK_32
    return x ^ (x >> 16)
