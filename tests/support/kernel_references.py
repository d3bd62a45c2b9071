"""Reference implementations of the kernels in plain PyTorch, and their random inputs.

Tests run kernels on a GPU if the machine has one, and otherwise in Triton's interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from runtime.device.fused import KVView, Norm, QKNormRope, SamplingRules, SamplingState, SlotState
from runtime.engine.execution.sampling import BatchSamplingParams, apply_talker_rules, gumbel_noise, sample_codes
from runtime.model.layers import RMSNorm, rotary, rotate

EPS = 1e-6
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
interpreted = pytest.mark.skipif(DEVICE == "cuda", reason="a rule that the interpreter shows as well as a GPU")
# Maximum differences between a kernel and its reference. The interpreter computes only in float32. On a GPU, bfloat16
# keys may be rounded differently, and the kernel rounds probabilities before it normalizes them, so results differ by
# up to 2 %.
TOLERANCE = {torch.float32: {"rtol": 1e-5, "atol": 1e-5}}
if DEVICE == "cuda":
    TOLERANCE = {torch.float32: {"rtol": 1e-4, "atol": 1e-4}, torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2}}


@dataclass(frozen=True, slots=True)
class Heads:
    """Arguments of an attention kernel, except `slots` and `positions`.

    runtime/device/fused.py describes the shapes.
    """

    qkv: Tensor
    heads: QKNormRope
    cache: KVView

    @property
    def keys(self) -> Tensor:
        return self.cache.keys

    @property
    def values(self) -> Tensor:
        return self.cache.values

    @classmethod
    def random(
        cls,
        generator: torch.Generator,
        count: int,
        *,
        slots: int,
        heads: int,
        kv_heads: int,
        d: int,
        length: int,
        dtype: torch.dtype,
    ) -> Heads:
        """Return random arguments for ``count`` positions and a KV cache with ``slots`` slots."""

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator).to(DEVICE, dtype)

        cos, sin = rotary(torch.arange(length), d, 10_000.0, dtype)
        return cls(
            qkv=3 * normal(count, (heads + 2 * kv_heads) * d),
            heads=QKNormRope(
                Norm(1 + 0.3 * normal(d), EPS), Norm(1 + 0.3 * normal(d), EPS), cos.to(DEVICE), sin.to(DEVICE)
            ),
            cache=KVView(normal(slots, kv_heads, length, d), normal(slots, kv_heads, length, d)),
        )

    def copy(self) -> Heads:
        """Return a copy of the arguments with a cloned KV cache."""
        return replace(self, cache=KVView(self.keys.clone(), self.values.clone()))

    def with_cache(self, dtype: torch.dtype) -> Heads:
        """Return a copy of the arguments with a KV cache of another dtype."""
        return replace(self, cache=KVView(self.keys.to(dtype), self.values.to(dtype)))

    def poison(self, slot: int, start: int) -> None:
        """Fill the KV cache of a slot with NaN, from position `start` on.

        A kernel that wrongly reads these positions returns NaN.
        """
        self.keys[slot, :, start:] = self.values[slot, :, start:] = torch.nan

    def arguments(self) -> tuple[Tensor, QKNormRope, KVView]:
        """Return the kernel's QKV tensor, its norm and RoPE parameters, and its KV cache."""
        return self.qkv, self.heads, self.cache


def attend_reference(heads: Heads, slots: list[int], positions: list[int], cache: KVView | None = None) -> Tensor:
    """Compute the attention of new positions over the cached positions of their slots.

    Like the kernels, this function first writes the new keys and values to the cache of `heads`.

    Args:
        cache: KV cache to attend to, or None for the cache of `heads`.

    Shapes: slots and positions have one item per row of qkv; result [len(qkv), heads * d].
    """
    kv_heads, d = heads.keys.shape[1], heads.keys.shape[3]
    dtype, count = heads.qkv.dtype, len(heads.qkv)
    split = heads.qkv.view(count, -1, d)
    q, k, v = split.split((split.shape[1] - 2 * kv_heads, kv_heads, kv_heads), dim=1)
    q_norm, k_norm, *angles = heads.heads
    cos, sin = (table[positions].unsqueeze(1) for table in angles)
    q, k = (rotate(_norm(x, *norm), cos, sin) for x, norm in ((q, q_norm), (k, k_norm)))
    for row, (slot, position) in enumerate(zip(slots, positions, strict=True)):
        heads.keys[slot, :, position], heads.values[slot, :, position] = k[row], v[row]
    keys, values = cache or heads.cache
    out = torch.empty_like(q)
    group = q.shape[1] // kv_heads
    for row, (slot, position) in enumerate(zip(slots, positions, strict=True)):
        for head in range(q.shape[1]):
            seen = keys[slot, head // group, : position + 1].float()
            weights = (seen @ q[row, head].float() * d**-0.5).softmax(dim=-1).to(dtype)
            out[row, head] = weights.float() @ values[slot, head // group, : position + 1].float()
    return out.flatten(1)


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    norm = RMSNorm(x.shape[-1], eps)
    norm.weight.data = weight
    return norm(x).detach()


@dataclass(frozen=True, slots=True)
class Slots:
    """Sampling parameters of all slots, as tensors.

    Shapes: seen [S, V] for S slots and V codes; all other tensors [S].
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    greedy: Tensor
    seed: Tensor
    frame: Tensor
    seen: Tensor
    penalty: Tensor
    eos_banned_until: Tensor

    @classmethod
    def random(cls, generator: torch.Generator, slots: int, width: int) -> Slots:
        """Return random sampling parameters, including disabled and extreme values."""

        def uniform(low: float, high: float) -> Tensor:
            return low + (high - low) * torch.rand(slots, generator=generator)

        def often(share: float) -> Tensor:
            return torch.rand(slots, generator=generator) < share

        some = torch.randint(1, min(60, width) + 1, (slots,), generator=generator)
        known = cls(
            temperature=uniform(0.1, 2.5),
            top_k=torch.where(often(0.25), torch.tensor(width), torch.where(often(0.2), torch.tensor(1), some)),
            top_p=torch.where(often(0.5), torch.tensor(1.0), uniform(0.02, 1.0)),
            greedy=often(0.2),
            seed=torch.randint(0, 2**63 - 1, (slots,), generator=generator),
            frame=torch.randint(0, 6, (slots,), generator=generator),
            seen=torch.rand(slots, width, generator=generator) < 0.3,
            penalty=torch.where(often(0.3), torch.tensor(1.0), uniform(0.7, 1.8)),
            eos_banned_until=torch.randint(0, 6, (slots,), generator=generator),
        )
        return cls(**{name: getattr(known, name).to(DEVICE) for name in cls.__slots__})

    @property
    def state(self) -> SamplingState:
        """Return the parameters as a `SamplingState`, the argument of the sampling kernel."""
        return SamplingState(self.temperature, self.top_k, self.top_p, self.greedy, self.seed, self.frame)

    def rules(self, min_frames: int, eos: int, codes: int) -> SamplingRules:
        """Return the talker's sampling rules as an argument of the sampling kernel."""
        return SamplingRules(self.seen, self.penalty, self.eos_banned_until, min_frames, eos, codes)


def draw_reference(logits: Tensor, rows: Tensor, slots: Slots, codebook: int, rules: SamplingRules | None) -> Tensor:
    """Sample one code for each row with plain PyTorch operations.

    Shapes: logits [B, V]; rows [B] int64; result [B] int64.
    """
    width = logits.shape[1]
    scores, frame = logits.float(), slots.frame[rows]
    if rules is not None:
        allowed = torch.arange(width, device=logits.device) < rules.codes
        allowed[rules.eos] = True
        hold = rules.eos_banned_until[rows].clamp(min=rules.min_frames)
        scores = apply_talker_rules(scores, rules.seen[rows], rules.penalty[rows], frame, hold, allowed, rules.eos)
    level = BatchSamplingParams(
        temperature=slots.temperature[rows],
        top_k=slots.top_k[rows],
        top_p=slots.top_p[rows],
        greedy=slots.greedy[rows],
        widest_k=width,
        any_top_p=True,
    )
    return sample_codes(scores, level, gumbel_noise(slots.seed[rows], frame, codebook + 1, width)[:, codebook])


def random_state(generator: torch.Generator, slots: int, groups: int, codes: int, texts: int) -> SlotState:
    """Return the random state of slots that have generated part of their text.

    There is one additional scratch slot.
    """
    length = 30

    def ints(below: int, *shape: int) -> Tensor:
        numbers = torch.randint(0, below, (slots + 1, *shape), generator=generator)
        return numbers.to(DEVICE)

    state = SlotState(
        position=ints(500),
        frame=1 + ints(length),
        codes=ints(codes, groups),
        trailing=ints(texts, length),
        seen=torch.rand(slots + 1, codes + 3, generator=generator).to(DEVICE) < 0.2,
    )
    state.position[-1] = state.frame[-1] = 0
    return state


def copy_of(state: SlotState) -> SlotState:
    return SlotState(*(tensor.clone() for tensor in state))


def begin_reference(rows: Tensor, state: SlotState, frames: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the input of the next frame for each row: its embedding and its position.

    The embedding is the sum of code and text embeddings.

    Shapes: result [B, H] and [B] int64.
    """
    codes = state.codes[rows].clamp(max=frames.shape[1] - 1)
    own = [table[column] for table, column in zip(frames, codes.unbind(1), strict=True)]
    beside = state.trailing[rows, (state.frame[rows] - 1).clamp(min=0)]
    return torch.stack(own, dim=-2).sum(-2) + text[beside], state.position[rows]


def finish_reference(rows: Tensor, state: SlotState, codes: Tensor, finite: Tensor, eos: int, stops: Tensor) -> Tensor:
    """Update the state of all rows after a frame, and return the output of the frame.

    Shapes: stops [B]: position of each row's next input.
    """
    output = []
    for row, slot in enumerate(rows.tolist()):
        moves = slot < len(state.frame) - 1
        state.position[slot] = int(stops[row]) if moves else 0
        state.frame[slot] = int(state.frame[slot]) + 1 if moves else 0
        state.codes[slot] = codes[row]
        state.seen[slot, int(codes[row, 0])] = True
        output.append([*codes[row].tolist(), int(codes[row, 0] == eos), int(finite[row].all())])
    return torch.tensor(output, device=rows.device)
