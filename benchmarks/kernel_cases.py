"""Microseconds of each kernel of runtime/device/kernels on a card, launched again and again in one graph.

    python -m benchmarks.kernel_cases            # as they are launched in service
    python -m benchmarks.kernel_cases --variants # and with other sizes of what a program takes

Attention goes over one cache after another, so that keys come from memory and not from the cache of the launch before.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from runtime.device.fused import KVView, Lookup, Norm, QKNormRope, Rules, Sampled, SamplingState, SlotState
from runtime.device.kernels import decode_attention, frame_io, prefill_attention, sample
from runtime.model.layers import rotary

HEADS, KV_HEADS, D = 16, 8, 128  # of both published networks
# qkv, both norms, eps, both tables, keys, values
Given = tuple[Tensor, QKNormRope, KVView]

LAYERS = 4  # caches that launches take in turn
GROUPS, CODES, EOS, WIDTH, EMBEDDED = 16, 2048, 2150, 2048, 1024
TEXTS = 150_000
LAUNCHES, REPLAYS = 96, 20
CARD = torch.device("cuda")

# What may be varied: module, constant, values.
VARIANTS: dict[str, list[tuple[ModuleType, dict[str, int]]]] = {
    "decode_attention": [
        *((decode_attention, {"PARTS": parts, "STAGES": stages}) for parts in (4, 8) for stages in (2, 3, 4)),
        *((decode_attention, {"FEWEST_WARPS": warps}) for warps in (1, 2, 4)),  # of the code predictor's few keys
    ],
    "prefill_attention": [
        (prefill_attention, {"TILE": tile, "BLOCK": block, "STAGES": stages})
        for tile in (16, 32)
        for block in (32, 64)
        for stages in (2, 3)
    ],
    "sample": [(sample, {"WARPS": warps}) for warps in (4, 8, 16)],
    "begin": [(frame_io, {"WIDTH": width}) for width in (128, 256, 512)],
    "finish": [],
}


@dataclass(frozen=True, slots=True)
class Case:
    """One launch: the kernel, a name for the shapes, the bytes that it must move, and the n-th launch."""

    kernel: str
    shapes: str
    bytes: int
    launch: Callable[[int], object]


def cases(batches: tuple[int, ...] = (1, 8, 32, 64)) -> Iterator[Case]:
    """The launches of a frame and of a prefill chunk, in bfloat16."""
    for batch in batches:
        for length in (300, 2048):
            yield _rows(batch, 2049, length, 1)
        yield _rows(batch, 16, 0, 2)
        yield _rows(batch, 16, 12, 1)
        yield from _samples(batch)
        yield from _frame_io(batch)
    for count, start in ((16, 0), (64, 0), (512, 0), (512, 1500)):
        yield _prefill(count, start)


def _heads(count: int, slots: int, length: int) -> tuple[list[Given], int]:
    """Arguments of an attention kernel, one for each cache, and the bytes of a position's keys and values."""
    fan = (HEADS + 2 * KV_HEADS) * D
    qkv, weight = _normal(count, fan), _normal(D)
    cos, sin = rotary(torch.arange(length, device=CARD), D, 1e6, torch.bfloat16)
    shape = (slots, KV_HEADS, length, D)
    caches = [(_normal(*shape), _normal(*shape)) for _ in range(LAYERS)]
    heads = QKNormRope(Norm(weight, 1e-6), Norm(weight, 1e-6), cos, sin)
    return [(qkv, heads, KVView(*cache)) for cache in caches], 2 * 2 * KV_HEADS * D


def _rows(batch: int, length: int, position: int, new: int) -> Case:
    given, each = _heads(batch * new, batch, length)
    rows, positions = torch.arange(batch, device=CARD), torch.full((batch,), position, device=CARD)
    return Case(
        "decode_attention",
        f"B={batch} T={length} at {position}" + f" new={new}" * (new > 1),
        batch * (position + new) * each,
        lambda n: decode_attention.decode_attention(*given[n % LAYERS], rows, positions, new, settled=True),
    )


def _prefill(count: int, start: int) -> Case:
    given, each = _heads(count, 1, 2049)
    slot, at = torch.zeros(1, dtype=torch.int64, device=CARD), torch.full((1,), start, device=CARD)
    return Case(
        "prefill_attention",
        f"P={count} from {start}",
        (start + count) * each,
        lambda n: prefill_attention.prefill_attention(*given[n % LAYERS], slot, at),
    )


def _samples(batch: int) -> Iterator[Case]:
    """Defaults (top-k 50) over flat and over steep scores, with top-p, greedy, and with the talker's rules."""
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
    tables, text = _normal(GROUPS, CODES, WIDTH), _normal(TEXTS, WIDTH)

    def ints(below: int, *shape: int) -> Tensor:
        return torch.randint(0, below, (batch + 1, *shape), device=CARD)

    seen = torch.zeros(batch + 1, CODES, device=CARD, dtype=torch.bool)
    state = SlotState(ints(2000), ints(2000), ints(CODES, GROUPS), ints(TEXTS, 2048), seen)
    rows, positions = torch.arange(batch, device=CARD), torch.zeros(batch, device=CARD, dtype=torch.int64)
    finite = torch.ones(batch, GROUPS, device=CARD, dtype=torch.bool)
    sampled = Sampled(state.codes[:batch].clone(), finite)
    moved = batch * (GROUPS + 2) * WIDTH * 2
    yield Case("begin", f"B={batch}", moved, lambda n: frame_io.begin(rows, state, tables, text))
    moved = batch * (3 * GROUPS + 4) * 8
    yield Case("finish", f"B={batch}", moved, lambda n: frame_io.finish(rows, state, sampled, EOS, positions))


def _normal(*shape: int) -> Tensor:
    return torch.randn(*shape, device=CARD, dtype=torch.bfloat16)


def microseconds(case: Case) -> float:
    """Of one launch among many in a graph."""
    for n in range(LAYERS):
        case.launch(n)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for n in range(LAUNCHES):
            case.launch(n)
    graph.replay()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    for _ in range(REPLAYS):
        graph.replay()
    end.record()
    end.synchronize()
    return 1000 * start.elapsed_time(end) / (REPLAYS * LAUNCHES)


@contextmanager
def _with(module: ModuleType, constants: dict[str, int]) -> Iterator[None]:
    before = {name: getattr(module, name) for name in constants}
    try:
        for name, value in constants.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--only", default="", help="kernels whose name holds this")
    asked = parser.parse_args()
    print("| kernel | shapes | us | GB/s |\n|---|---|---|---|")
    for case in cases(tuple(asked.batches)):
        if asked.only not in case.kernel:
            continue
        took = microseconds(case)
        line = f"| {case.kernel} | {case.shapes} | {took:.2f} | {case.bytes / took / 1000:.0f} |"
        if asked.variants:
            line += "".join(f" {words} {_varied(case, module, words)};" for module, words in VARIANTS[case.kernel])
        print(line, flush=True)


def _varied(case: Case, module: ModuleType, constants: dict[str, int]) -> str:
    """Microseconds with other constants, or what is wrong with them."""
    with _with(module, constants):
        try:
            return f"{microseconds(case):.2f}"
        except Exception as error:  # a block may be too large for the card: that is an answer too
            return type(error).__name__


if __name__ == "__main__":
    main()
