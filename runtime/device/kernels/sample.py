"""Sampling kernel that applies all sampling rules and the embedding lookup in one launch.

The reference implementation is runtime/engine/execution/sampling.py. The kernel does not search for the top-k
threshold. Instead, it repeats two steps: select the code with the highest score plus noise, and check if the score of
this code is among the k highest. If the check fails, the next round considers only codes with higher scores. Usually
the first code is accepted. A flat distribution needs a few rounds.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from runtime.device.fused import EmbeddingLookup, SampleOutput, SamplingRules, SamplingState
from runtime.device.kernels import launch_options

WARPS = 8

GOLDEN = tl.constexpr(0x9E3779B9)
MIN_KEY = tl.constexpr(-(2**31))  # Key that is lower than the key of every allowed code.


def sample(
    logits: Tensor,
    rows: Tensor,
    state: SamplingState,
    codebook: int,
    out: SampleOutput,
    rules: SamplingRules | None = None,
    lookup: EmbeddingLookup | None = None,
    *,
    inputs_ready: bool = False,
) -> None:
    """Sample one code per row, and look up the code's embedding.

    The results are stored in column `codebook` of `out`. A row with a logit that is not finite gets False in
    `out.finite` and an arbitrary code in [0, V).

    Shapes: logits [B, V] float32 or bfloat16; rows [B] int64, slot numbers.

    Args:
        inputs_ready: True if all kernels that write `rows` and `state` have finished. The noise is then computed while
            the previous kernel still runs.
    """
    B, V = logits.shape
    Q = out.codes.shape[1]
    assert all(tensor.is_contiguous() for tensor in (logits, rows, *out, *state, *(rules[:3] if rules else ())))
    assert out.codes.shape == out.finite.shape == (len(rows), Q) == (B, Q)
    assert 0 <= codebook < Q
    assert rules is None or rules.seen.shape[1] == V
    width = 0
    if lookup is not None:
        width = lookup.table.shape[1]
        assert lookup.table.shape == (V, width)
        assert lookup.out.shape == (B, width)
        assert lookup.table.dtype == lookup.out.dtype
        assert lookup.table.is_contiguous()
        assert lookup.addresses is None or lookup.addresses.shape == state.seed.shape
        assert lookup.addresses is None or lookup.addresses.is_contiguous()
        assert lookup.out.stride(1) == 1
    _sample[(B,)](
        logits,
        rows,
        *state,
        *out,
        *(rules[:3] if rules else (None, None, None)),
        *(lookup or (None, None, None)),
        lookup.out.stride(0) if lookup else 0,
        codebook,
        Q,
        RULES=rules is not None,
        MIN_FRAMES=rules.min_frames if rules else 0,
        EOS=rules.eos if rules else 0,
        CODES=rules.codes if rules else V,
        V=V,
        WIDTH=triton.next_power_of_2(V),
        EMBEDDED=width,
        EMBEDDED_WIDTH=triton.next_power_of_2(max(width, 1)),
        ADDRESSED=lookup is not None and lookup.addresses is not None,
        INPUTS_READY=inputs_ready,
        num_warps=WARPS,
        **launch_options(),
    )


@triton.jit(do_not_specialize=["codebook"])
def _sample(
    logits,
    rows,
    temperature,
    top_k,
    top_p,
    greedy,
    seed,
    frame,
    codes,
    finite,
    seen,
    penalty,
    eos_banned_until,
    table,
    embedded,
    addresses,
    embedded_stride,
    codebook,
    Q,
    RULES: tl.constexpr,
    MIN_FRAMES: tl.constexpr,
    EOS: tl.constexpr,
    CODES: tl.constexpr,
    V: tl.constexpr,
    WIDTH: tl.constexpr,
    EMBEDDED: tl.constexpr,
    EMBEDDED_WIDTH: tl.constexpr,
    ADDRESSED: tl.constexpr,
    INPUTS_READY: tl.constexpr,
    PDL: tl.constexpr,
):
    if PDL:
        if not INPUTS_READY:
            # The wait returns when the previous kernel has ended. After this, the next kernel may start and read the
            # results of the previous kernel.
            tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
    row = tl.program_id(0)
    slot = tl.load(rows + row)
    code = tl.arange(0, WIDTH)
    inside = code < V
    frame_number = tl.load(frame + slot)
    best_only = tl.load(greedy + slot) != 0
    noise = tl.zeros((WIDTH,), tl.float32)
    heat = 1.0
    k = V
    p = 1.0
    if not best_only:
        noise = _gumbel(tl.load(seed + slot), frame_number, codebook, code)
        heat = tl.load(temperature + slot)
        k = tl.minimum(tl.maximum(tl.load(top_k + slot), 1), V).to(tl.int32)
        p = tl.load(top_p + slot)
    if PDL and INPUTS_READY:
        tl.extra.cuda.gdc_wait()

    scores = tl.load(logits + row * V + code, mask=inside, other=0.0).to(tl.float32)
    number = tl.abs(scores) < float("inf")
    tl.store(finite + row * Q + codebook, tl.min(number.to(tl.int32)) != 0)
    scores = tl.where(number, scores, 0.0)
    allowed = inside
    if RULES:
        weight = tl.load(penalty + slot)
        before = tl.load(seen + slot * V + code, mask=inside, other=0) != 0
        scores = tl.where(before, tl.where(scores > 0, tl.div_rn(scores, weight), scores * weight), scores)
        is_eos_banned = frame_number < tl.maximum(tl.load(eos_banned_until + slot), MIN_FRAMES)
        allowed = (code < CODES) | ((code == EOS) & (not is_eos_banned))
    warm = tl.div_rn(scores, tl.zeros_like(scores) + heat)
    keys = tl.where(allowed, _ordered(warm), MIN_KEY)
    noisy = tl.where(allowed, _ordered(warm + noise), MIN_KEY)

    share = tl.zeros((WIDTH,), tl.float32)
    removable_share = 0.0  # Maximum total probability of the codes that top-p may remove.
    top = tl.max(keys)
    if p < 1:
        share = tl.exp(warm - tl.max(tl.where(allowed, warm, float("-inf"))))
        share = tl.where(allowed & (keys >= _kth_largest(keys, k)), share, 0.0)
        removable_share = (1 - p) * tl.sum(share)
    sampled, key = _best_above(keys, noisy, code, MIN_KEY)
    again = _is_banned(keys, share, key, top, k, p, removable_share, V)
    while again:
        sampled, key = _best_above(keys, noisy, code, key)
        again = _is_banned(keys, share, key, top, k, p, removable_share, V)
    tl.store(codes + row * Q + codebook, sampled)
    if EMBEDDED:
        dims = tl.arange(0, EMBEDDED_WIDTH)
        if ADDRESSED:
            table = tl.multiple_of(tl.load(addresses + slot).to(tl.pointer_type(embedded.dtype.element_ty)), 16)
        code_embedding = tl.load(table + sampled * EMBEDDED + dims, mask=dims < EMBEDDED)
        tl.store(embedded + row * embedded_stride + dims, code_embedding, mask=dims < EMBEDDED)


@triton.jit
def _best_above(keys, noisy, code, floor):
    """Return the code with the highest noisy score among keys above `floor`, and its key."""
    noisy = tl.where(keys > floor, noisy, MIN_KEY)
    sampled = tl.min(tl.where(noisy == tl.max(noisy), code, 2**30))
    return sampled, tl.max(tl.where(code == sampled, keys, MIN_KEY))


@triton.jit
def _is_banned(keys, share, key, top, k, p, removable_share, V: tl.constexpr):
    """True if top-k or top-p removes the code with this key, except the most probable code."""
    banned = False
    if k < V:
        banned = tl.sum((keys > key).to(tl.int32)) >= k
    if p < 1:
        banned = banned | (tl.sum(tl.where(keys <= key, share, 0.0)) <= removable_share)
    return banned & (key < top)


@triton.jit
def _kth_largest(keys, k):
    """Return the k-th largest key with a binary search over its bits."""
    place = keys.to(tl.uint32, bitcast=True) ^ 0x80000000
    bound = tl.zeros((), tl.uint32)
    for step in range(32):
        trial = bound | (tl.full((), 0x80000000, tl.uint32) >> step)
        reached = tl.sum((place >= trial).to(tl.int32))
        bound = tl.where(reached >= k, trial, bound)
    return (bound ^ 0x80000000).to(tl.int32, bitcast=True)


@triton.jit
def _ordered(x):
    """Map float32 to int32 keys with the same order, and the same key for both zeros."""
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def _gumbel(seed, frame, codebook, code):
    """Compute ``gumbel_noise`` of one row, frame and codebook with unsigned 32-bit arithmetic."""
    key = _mix(seed.to(tl.uint32)) ^ (seed >> 32).to(tl.uint32)
    key = _mix(key + frame.to(tl.uint32) * GOLDEN)
    key = _mix(key + (codebook + 1).to(tl.uint32) * GOLDEN)
    bits = _mix(_mix(key ^ ((code + 1).to(tl.uint32) * GOLDEN)) + key)
    uniform = ((bits >> 9).to(tl.float32) + 0.5) * (2.0**-23)
    return -tl.log(-tl.log(uniform))


@triton.jit
def _mix(x):
    """Mix 32 bits with lowbias32 (Wellons 2018)."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)
