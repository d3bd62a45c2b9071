"""The code predictor's five layers in one launch that stays on the card, against the chain of launches in service.

    python -m benchmarks.persistent        # microseconds of a pass of one position, on a card

An attempt, not in service: docs/performance.md says what came of it. Programs take the tiles of a stage in turn and
meet at a barrier in memory between two stages; who waits there calls the weights of the coming stages into the cache.
Products are cut and summed as runtime/device/kernels/linear.py does; attention takes all keys at once.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from benchmarks.timing import microseconds
from runtime.device.fused import Norm
from runtime.device.kernels.attention import attend_rows
from runtime.device.kernels.heads import LOG2_E, LOWEST, norm_and_rotate, partners
from runtime.device.kernels.linear import call_rows, linear, norm, swiglu
from runtime.device.kernels.spread import sum_of_parts

EPS = 1e-6
NARROW, PARTS = 16, 4  # outputs of a tile where there are few of them, and stretches of K summed beside each other
BATCHES, POSITION = (1, 16), 5
STEP = tl.constexpr(256)  # lines of the cache that a program calls at a time


class Sizes(NamedTuple):
    """Of the network: both published ones have the defaults' code predictor."""

    layers: int = 5
    hidden: int = 1024
    heads: int = 16
    kv_heads: int = 8
    d: int = 128
    inner: int = 3072
    positions: int = 16

    @property
    def fan(self) -> int:
        """Outputs of the fused q, k and v."""
        return (self.heads + 2 * self.kv_heads) * self.d


class Way(NamedTuple):
    """How the launch goes about it: programs, outputs of a wide tile, whether weights are called, and if any work."""

    programs: int
    wide: int = 64
    calls: bool = False
    works: bool = True


WAYS = (
    Way(64, works=False),
    Way(128, works=False),
    Way(64),
    Way(64, calls=True),
    Way(128),
    Way(128, wide=32),
    Way(128, wide=32, calls=True),
)


@triton.jit
def _meet(arrived, goal, ON_CARD: tl.constexpr):
    """Wait until all programs have come here, and return that many; what each wrote before is seen by all behind."""
    tl.debug_barrier()
    tl.atomic_add(arrived, 1, sem="release", scope="gpu")
    if ON_CARD:
        here = 0
        while here < goal:
            here = tl.inline_asm_elementwise(
                "ld.acquire.gpu.global.s32 $0, [$1];", "=r,l", [arrived], tl.int32, False, 1
            )
    tl.debug_barrier()
    return goal


@triton.jit
def _norm(x, weight, out, rows, eps, H: tl.constexpr):
    """Every program for itself: a stage of its own would cost another barrier."""
    k = tl.arange(0, H)
    for m in range(0, rows):
        row = tl.load(x + m * H + k).to(tl.float32)
        scale = tl.rsqrt(tl.sum(row * row) / H + eps)
        tl.store(out + m * H + k, (row * scale).to(out.dtype.element_ty) * tl.load(weight + k))
    tl.debug_barrier()


@triton.jit
def _wide(
    x, w, out, n0, rows, N: tl.constexpr, K: tl.constexpr, GATED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    """Some outputs of all rows; with a gate above, silu(gate) * up."""
    BK: tl.constexpr = 128
    m, n, k = tl.arange(0, BM), n0 + tl.arange(0, BN), tl.arange(0, BK)
    here = m < rows
    dtype = w.dtype.element_ty
    w_at = w + n[:, None].to(tl.int64) * K + k[None, :]
    x_at = x + m[None, :] * K + k[:, None]
    acc = tl.zeros((BN, BM), tl.float32)
    up = tl.zeros((BN, BM), tl.float32)
    for start in tl.range(0, K, BK, num_stages=4):
        tile = tl.load(x_at + start, here[None, :], 0.0)
        acc = tl.dot(tl.load(w_at + start), tile, acc, input_precision="ieee")
        if GATED:
            up = tl.dot(tl.load(w_at + N * K + start), tile, up, input_precision="ieee")
    if GATED:
        gate = acc.to(dtype).to(tl.float32)
        acc = (gate / (1 + tl.exp(-gate))).to(dtype).to(tl.float32) * up.to(dtype).to(tl.float32)
    tl.store(out + m[None, :] * N + n[:, None], acc.to(dtype), here[None, :])


@triton.jit
def _narrow(
    x, w, residual, out, n0, rows, N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, P: tl.constexpr
):
    """A few outputs of all rows, K in stretches beside each other, and the residual."""
    EACH: tl.constexpr = 64
    STRETCH: tl.constexpr = K // P
    m, n = tl.arange(0, BM), n0 + tl.arange(0, BN)
    here = m < rows
    dtype = w.dtype.element_ty
    k = tl.arange(0, P)[:, None] * STRETCH + tl.arange(0, EACH)[None, :]
    w_at = w + n[None, :, None].to(tl.int64) * K + k[:, None, :]
    x_at = x + m[None, None, :] * K + k[:, :, None]
    sums = tl.zeros((P, BN, BM), tl.float32)
    for start in tl.range(0, STRETCH, EACH, num_stages=6):
        tile = tl.load(x_at + start, here[None, None, :], 0.0)
        sums = tl.dot(tl.load(w_at + start), tile, sums, input_precision="ieee")
    at = m[None, :] * N + n[:, None]
    beside = tl.load(residual + at, here[None, :], 0.0).to(tl.float32)
    tl.store(out + at, (sum_of_parts(sums, P).to(dtype).to(tl.float32) + beside).to(dtype), here[None, :])


@triton.jit
def _attend(
    qkv, q_norm, k_norm, cos, sin, keys, values, row, kv_head, first, out, eps, scale,
    HEADS: tl.constexpr, KV: tl.constexpr, D: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """The query heads of one row and one key head at one new position, over a cache of a few."""
    GROUP: tl.constexpr = HEADS // KV
    query, dims, index = tl.arange(0, GROUP), tl.arange(0, D)[None, :], tl.arange(0, T)
    partner = partners(tl.arange(0, D), D)[None, :]
    head, old = kv_head * GROUP + query, index < first
    cos, sin = tl.load(cos + first * D + dims), tl.load(sin + first * D + dims)
    source = qkv + row * (HEADS + 2 * KV) * D
    q_at, k_at = source + (head * D)[:, None], source + (HEADS + kv_head) * D
    base = (row * KV + kv_head) * T * D
    block = base + index[:, None] * D + dims
    k = tl.load(keys + block, old[:, None], 0.0).to(tl.float32)
    v = tl.load(values + block, old[:, None], 0.0).to(tl.float32)
    q, q_partner = tl.load(q_at + dims), tl.load(q_at + partner)
    q = norm_and_rotate(q, q_partner, tl.load(q_norm + dims), tl.load(q_norm + partner), cos, sin, eps, D, D)
    new_k, k_partner = tl.load(k_at + dims), tl.load(k_at + partner)
    new_k = norm_and_rotate(new_k, k_partner, tl.load(k_norm + dims), tl.load(k_norm + partner), cos, sin, eps, D, D)
    new_v = tl.load(k_at + KV * D + dims)
    tl.store(keys + base + first * D + dims, new_k)
    tl.store(values + base + first * D + dims, new_v)
    wide = q.to(tl.float32) * (scale * LOG2_E)
    new_score = tl.sum(wide * new_k.to(tl.float32), axis=1)
    score = tl.where(old[None, :], tl.sum(wide[:, None, :] * k[None, :, :], axis=2), LOWEST)
    best = tl.maximum(tl.max(score, axis=1), new_score)
    share, new_share = tl.exp2(score - best[:, None]), tl.exp2(new_score - best)
    mixed = tl.sum(share[:, :, None] * v[None, :, :], axis=1) + new_share[:, None] * new_v.to(tl.float32)
    total = tl.sum(share, axis=1) + new_share
    tl.store(out + ((row * HEADS + head) * D)[:, None] + dims, (mixed / total[:, None]).to(q.dtype))


@triton.jit
def _stay(
    x, qkv_w, o_w, gate_up_w, down_w, norm_1, norm_2, q_norm, k_norm, cos, sin, keys, values,
    own, qkv, attended, between, inner, arrived, rows, first, eps, scale,
    L: tl.constexpr, H: tl.constexpr, HEADS: tl.constexpr, KV: tl.constexpr, D: tl.constexpr, INNER: tl.constexpr,
    T: tl.constexpr, BM: tl.constexpr, WIDE: tl.constexpr, NARROW: tl.constexpr, PARTS: tl.constexpr,
    CALLS: tl.constexpr, WORKS: tl.constexpr, ON_CARD: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    mine = own + program * BM * H
    F: tl.constexpr = (HEADS + 2 * KV) * D
    A: tl.constexpr = HEADS * D
    met = 0
    for layer in range(0, L):
        of_o, of_gate_up, of_down = o_w + layer * H * A, gate_up_w + layer * 2 * INNER * H, down_w + layer * H * INNER
        if WORKS:
            _norm(x, norm_1 + layer * H, mine, rows, eps, H)
            for tile in range(program, F // WIDE, programs):
                _wide(mine, qkv_w + layer * F * H, qkv, tile * WIDE, rows, F, H, False, BM, WIDE)
        if CALLS:
            if program * NARROW < H:
                call_rows(of_o, program * NARROW, A, NARROW, STEP)
            if program * WIDE < INNER:
                call_rows(of_gate_up, program * WIDE, H, WIDE, STEP)
                call_rows(of_gate_up, INNER + program * WIDE, H, WIDE, STEP)
        met = _meet(arrived, met + programs, ON_CARD)
        if WORKS:
            cache = layer * rows * KV * T * D
            for unit in range(program, rows * KV, programs):
                _attend(
                    qkv, q_norm + layer * D, k_norm + layer * D, cos, sin, keys + cache, values + cache,
                    unit // KV, unit % KV, first, attended, eps, scale, HEADS, KV, D, T,
                )  # fmt: skip
        if CALLS and program * NARROW < H:
            call_rows(of_down, program * NARROW, INNER, NARROW, STEP)
        met = _meet(arrived, met + programs, ON_CARD)
        if WORKS:
            for tile in range(program, H // NARROW, programs):
                _narrow(attended, of_o, x, between, tile * NARROW, rows, H, A, BM, NARROW, PARTS)
        met = _meet(arrived, met + programs, ON_CARD)
        if WORKS:
            _norm(between, norm_2 + layer * H, mine, rows, eps, H)
            for tile in range(program, INNER // WIDE, programs):
                _wide(mine, of_gate_up, inner, tile * WIDE, rows, INNER, H, True, BM, WIDE)
        if CALLS and layer + 1 < L and program * WIDE < F:
            call_rows(qkv_w + (layer + 1) * F * H, program * WIDE, H, WIDE, STEP)
        met = _meet(arrived, met + programs, ON_CARD)
        if WORKS:
            for tile in range(program, H // NARROW, programs):
                _narrow(inner, of_down, between, x, tile * NARROW, rows, H, INNER, BM, NARROW, PARTS)
        met = _meet(arrived, met + programs, ON_CARD)


class Predictor:
    """Random weights, caches and inputs of some rows. Shapes: weights [layers, outputs, inputs]; x [rows, hidden]."""

    def __init__(self, rows: int, sizes: Sizes = Sizes(), device: str = "cuda", dtype: torch.dtype = torch.bfloat16):  # noqa: B008
        generator = torch.Generator(device).manual_seed(0)

        def normal(*shape: int, scale: float = 1.0) -> Tensor:
            return (torch.randn(*shape, generator=generator, device=device) * scale).to(dtype)

        L, H, heads, kv_heads, d, inner, T = self.sizes = sizes
        self.rows, self.x = rows, normal(rows, H)
        self.qkv, self.o = normal(L, sizes.fan, H, scale=H**-0.5), normal(L, H, heads * d, scale=(heads * d) ** -0.5)
        self.gate_up, self.down = normal(L, 2 * inner, H, scale=H**-0.5), normal(L, H, inner, scale=inner**-0.5)
        self.norms = [1 + normal(L, width, scale=0.1) for width in (H, H, d, d)]
        self.angles = normal(T, d), normal(T, d)
        self.caches = normal(L, rows, kv_heads, T, d), normal(L, rows, kv_heads, T, d)
        self._slots = torch.arange(rows, device=device)
        self._arrived = torch.zeros(1, device=device, dtype=torch.int32)

    def chain(self, positions: Tensor) -> Tensor:
        """As in service. Shapes: positions [rows] int64; result as x."""
        x, (norm_1, norm_2, q_norm, k_norm) = self.x, self.norms
        for layer, (keys, values) in enumerate(zip(*self.caches, strict=True)):
            qkv = linear(norm(x, Norm(norm_1[layer], EPS)), self.qkv[layer])
            heads = qkv, q_norm[layer], k_norm[layer], EPS, *self.angles, keys, values
            x = linear(attend_rows(*heads, self._slots, positions, settled=True), self.o[layer], residual=x)
            inner = swiglu(norm(x, Norm(norm_2[layer], EPS)), self.gate_up[layer])
            x = linear(inner, self.down[layer], residual=x)
        return x

    def stay(self, first: int, way: Way) -> Tensor:
        """In one launch; every row's new position is ``first``."""
        sizes, x, rows = self.sizes, self.x.clone(), self.rows
        L, H, heads, kv_heads, d, inner, T = sizes
        rounded = max(16, triton.next_power_of_2(rows))
        shapes = (way.programs * rounded, H), (rows, sizes.fan), (rows, heads * d), (rows, H), (rows, inner)
        scratch = [x.new_empty(shape) for shape in shapes]
        on_card = x.device.type == "cuda"
        # All programs at once: one that had to wait for its place would be waited for.
        together = {"launch_cooperative_grid": True} if on_card else {}
        _stay[(way.programs,)](
            *(x, self.qkv, self.o, self.gate_up, self.down, *self.norms, *self.angles, *self.caches),
            *(*scratch, self._arrived.zero_(), rows, first, EPS, d**-0.5),
            *(L, H, heads, kv_heads, d, inner, T, rounded, way.wide, NARROW, PARTS, way.calls, way.works, on_card),
            num_warps=4,
            enable_fp_fusion=False,
            **together,
        )
        return x


def main() -> None:
    """Print a line a way."""
    for rows in BATCHES:
        predictor = Predictor(rows)
        positions = torch.full((rows,), POSITION, device="cuda")
        expected = predictor.chain(positions)
        print(f"{rows} rows, chain: {microseconds(lambda: predictor.chain(positions)):.1f} us", flush=True)  # noqa: B023
        for way in WAYS:
            us = microseconds(lambda: predictor.stay(POSITION, way))  # noqa: B023
            said = f"differs by {(predictor.stay(POSITION, way) - expected).abs().max():.3g}" if way.works else "idle"
            print(f"{rows} rows, {way}: {us:.1f} us, {said}", flush=True)


if __name__ == "__main__":
    main()
