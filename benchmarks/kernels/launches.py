"""Kernel launches of a frame and a prefill chunk, in bfloat16 with the published shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.kernels.timing import CARD
from runtime.device.fused import KVView, Lookup, Norm, QKNormRope, Rules, Sampled, SamplingState, SlotState
from runtime.device.kernels import decode_attention, frame_io, prefill_attention, sample
from runtime.model.layers import rotary

HEADS, KV_HEADS, HEAD_DIM = 16, 8, 128
CACHES = 4  # Number of KV caches that launches use in turn.
GROUPS, CODES, EOS, WIDTH, EMBEDDED = 16, 2048, 2150, 2048, 1024
TEXT_ROWS = 150_000

AttentionInputs = tuple[Tensor, QKNormRope, KVView]  # Values: qkv, norms with RoPE tables, keys and values.


@dataclass(frozen=True, slots=True)
class Case:
    """Kernel launch to measure.

    It has the names of kernel and shapes, the number of bytes to move, and a function that launches the kernel. The
    argument of the function is the number of the launch.
    """

    kernel: str
    shapes: str
    bytes: int
    launch: Callable[[int], object]


def launches(batches: tuple[int, ...]) -> Iterator[Case]:
    """Yield the launches of frames with these batch sizes, and of prefill chunks."""
    for batch in batches:
        for length in (300, 2048):
            yield _rows(batch, 2049, length, 1)
        yield _rows(batch, 16, 0, 2)
        yield _rows(batch, 16, 12, 1)
        yield from _samples(batch)
        yield from _frame_io(batch)
    for count, start in ((16, 0), (64, 0), (512, 0), (512, 1500)):
        yield _prefill(count, start)


def _heads(count: int, slots: int, length: int) -> tuple[list[AttentionInputs], int]:
    """Return the inputs of an attention kernel for each cache, and the bytes of keys and values per position."""
    fan = (HEADS + 2 * KV_HEADS) * HEAD_DIM
    qkv, weight = _normal(count, fan), _normal(HEAD_DIM)
    cos, sin = rotary(torch.arange(length, device=CARD), HEAD_DIM, 1e6, torch.bfloat16)
    shape = (slots, KV_HEADS, length, HEAD_DIM)
    caches = [(_normal(*shape), _normal(*shape)) for _ in range(CACHES)]
    heads = QKNormRope(Norm(weight, 1e-6), Norm(weight, 1e-6), cos, sin)
    return [(qkv, heads, KVView(*cache)) for cache in caches], 2 * 2 * KV_HEADS * HEAD_DIM


def _rows(batch: int, length: int, position: int, new: int) -> Case:
    given, each = _heads(batch * new, batch, length)
    rows, positions = torch.arange(batch, device=CARD), torch.full((batch,), position, device=CARD)
    return Case(
        "decode_attention",
        f"B={batch} T={length} at {position}" + f" new={new}" * (new > 1),
        batch * (position + new) * each,
        lambda n: decode_attention.decode_attention(*given[n % CACHES], rows, positions, new, settled=True),
    )


def _prefill(count: int, start: int) -> Case:
    given, each = _heads(count, 1, 2049)
    slot, at = torch.zeros(1, dtype=torch.int64, device=CARD), torch.full((1,), start, device=CARD)
    return Case(
        "prefill_attention",
        f"P={count} from {start}",
        (start + count) * each,
        lambda n: prefill_attention.prefill_attention(*given[n % CACHES], slot, at),
    )


def _samples(batch: int) -> Iterator[Case]:
    """Yield sampling with top-k 50 from flat and steep scores, with top-p, greedy, and with the talker's rules."""
    yield _sample(batch, "flat", 0.1)
    yield _sample(batch, "steep", 6.0)
    yield _sample(batch, "flat, top_p .9", 0.1, p=0.9)
    yield _sample(batch, "greedy", 1.0, best=True)
    yield _sample(batch, "rules", 3.0, width=3072)


def _sample(batch: int, name: str, spread: float, *, p: float = 1.0, best: bool = False, width: int = CODES) -> Case:
    logits, rows = spread * _normal(batch, width), torch.arange(batch, device=CARD)
    temperature, top_p = (torch.full((batch,), value, device=CARD) for value in (0.9, p))
    top_k, frame = (torch.full((batch,), value, device=CARD) for value in (50, 7))
    greedy = torch.full((batch,), best, device=CARD)
    codes = torch.zeros(batch, GROUPS, device=CARD, dtype=torch.int64)
    sampled = Sampled(codes, torch.zeros_like(codes, dtype=torch.bool))
    state = SamplingState(temperature, top_k, top_p, greedy, rows, frame)
    rules, lookup = None, Lookup(_normal(width, EMBEDDED), _normal(batch, 2, EMBEDDED)[:, 1])
    if width > CODES:
        seen = torch.rand(batch, width, device=CARD) < 0.1
        rules = Rules(seen, temperature + 0.15, torch.zeros_like(rows), 2, EOS, CODES)

    def launch(n: int) -> None:
        codebook = 0 if rules else 1 + n % (GROUPS - 1)
        sample.sample(logits, rows, state, codebook, sampled, rules, lookup, settled=True)

    return Case("sample", f"B={batch} {name}", logits.nbytes, launch)


def _frame_io(batch: int) -> Iterator[Case]:
    tables, text = _normal(GROUPS, CODES, WIDTH), _normal(TEXT_ROWS, WIDTH)

    def ints(below: int, *shape: int) -> Tensor:
        return torch.randint(0, below, (batch + 1, *shape), device=CARD)

    seen = torch.zeros(batch + 1, CODES, device=CARD, dtype=torch.bool)
    state = SlotState(ints(2000), ints(2000), ints(CODES, GROUPS), ints(TEXT_ROWS, 2048), seen)
    rows, positions = torch.arange(batch, device=CARD), torch.zeros(batch, device=CARD, dtype=torch.int64)
    finite = torch.ones(batch, GROUPS, device=CARD, dtype=torch.bool)
    sampled = Sampled(state.codes[:batch].clone(), finite)
    moved = batch * (GROUPS + 2) * WIDTH * 2
    yield Case("begin", f"B={batch}", moved, lambda n: frame_io.begin(rows, state, tables, text))
    moved = batch * (3 * GROUPS + 4) * 8
    yield Case("finish", f"B={batch}", moved, lambda n: frame_io.finish(rows, state, sampled, EOS, positions))


def _normal(*shape: int) -> Tensor:
    return torch.randn(*shape, device=CARD, dtype=torch.bfloat16)
