"""Find the tiles of the frame's products on this card: `python -m benchmarks.tiles`, one table, fastest first.

A product is timed as the frame has it: in a graph, one launch behind the other, each with weights that are not in the
cache. Few rows are timed in small_m_gemm as well, and up to 64 in medium_m_gemm. "bits" stands for those of the first
row: tiles of one product that are to be used for different numbers of rows must agree in them. With ``--eight-bits``
weights are whole numbers of eight bits with a scale for each output.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from runtime.device.kernels import gemm, medium_m_gemm, shared_memory, small_m_gemm
from runtime.device.kernels.gemm import MAX_ROWS, PARTS, Tiles
from runtime.device.kernels.medium_m_gemm import MediumTiles
from runtime.device.kernels.small_m_gemm import SmallTiles
from runtime.device.quantized import Int8

KERNELS = ("small_m_gemm", "medium_m_gemm", "split_k", "gemm")
AnyTiles = Tiles | SmallTiles | MediumTiles
CHAIN = 40  # launches in a graph
SPREAD = 256 * 2**20  # bytes of weights that take turns: several times the cache
REPEATS = 5


@dataclass(frozen=True, slots=True)
class Product:
    """One of the frame's products: N outputs of K inputs."""

    name: str
    N: int
    K: int
    gated: bool = False
    residual: bool = False

    @property
    def bytes(self) -> int:
        """Of the weights in bfloat16."""
        return self.N * self.K * (4 if self.gated else 2)


PRODUCTS = (
    Product("predictor qkv", 4096, 1024),
    Product("predictor o", 1024, 2048, residual=True),
    Product("predictor gate, up", 3072, 1024, gated=True),
    Product("predictor down", 1024, 3072, residual=True),
    Product("predictor head", 2048, 1024),
    Product("talker head", 3072, 2048),
    Product("smaller talker's head", 3072, 1024),
    Product("talker qkv", 4096, 2048),
    Product("talker o", 2048, 2048, residual=True),
    Product("talker gate, up", 6144, 2048, gated=True),
    Product("talker down", 2048, 6144, residual=True),
)


def candidates(product: Product, rows: int) -> Iterator[Tiles]:
    """Tiles whose buffers fit."""
    BM = min(64, max(16, rows))
    for BN, BK, warps, stages in itertools.product((16, 32, 64), (128, 256, 512), (4, 8), (2, 3, 4, 6)):
        tile = BN * (2 if product.gated else 1)
        buffers = (tile + BM) * BK * 2 * stages
        # A step is of one stretch of K where they come one behind the other, else of all that lie beside each other.
        behind = tile >= gemm.MANY_ROWS.value
        if product.N % BN or (product.K // PARTS if behind else product.K) % BK or not (behind or BK >= 64 * PARTS):
            continue
        if not 30_000 <= buffers <= 200_000 or not 16 <= product.N // BN <= 400 or stages * BK > product.K + BK:
            continue
        for prefetch in (False, True):
            yield Tiles(BN, BK, PARTS, warps, stages, prefetch)


def split_ks(product: Product, rows: int) -> Iterator[Tiles]:
    """Tiles whose stretches of K are programs of their own."""
    if product.gated:
        return
    for BN, BK, warps, stages, prefetch in itertools.product((32, 64), (128, 256), (4, 8), (2, 3, 4), (False, True)):
        if product.N % BN or product.K % (PARTS * BK) or stages * BK * PARTS > product.K + BK * PARTS:
            continue
        if (BN + min(64, max(16, rows))) * BK * 2 * stages <= 200_000:
            yield Tiles(BN, BK, PARTS, warps, stages, prefetch, True)


def wides(product: Product) -> Iterator[Tiles]:
    """Tiles for many rows: each program takes more rows than those of few."""
    for BM, BN, BK, warps, stages in itertools.product((64, 128, 256), (32, 64, 128, 256), (64, 128), (4, 8), (3, 4)):
        tile = BN * (2 if product.gated else 1)
        sums = tile * BM // (32 * warps)  # numbers of a thread, and as many again; more do not stay in registers
        if tile >= 64 and (tile + BM) * BK * 2 * stages <= 200_000 and 32 <= sums <= 100:
            yield Tiles(BN, BK, PARTS, warps, stages, BM=BM)


def wide_split_ks(product: Product) -> Iterator[Tiles]:
    """Tiles for many rows whose stretches of K are programs of their own: more programs where outputs are few."""
    if product.gated:
        return
    for BM, BN, BK, warps, stages in itertools.product((64, 128, 256), (64, 128), (64, 128), (4, 8), (3, 4)):
        fits = product.K % (PARTS * BK) == 0 and (BN + BM) * BK * 2 * stages <= 200_000
        if fits and 16 <= BN * BM // (32 * warps) <= 128:
            yield Tiles(BN, BK, PARTS, warps, stages, split_k=True, BM=BM)


def small_tiles(product: Product, rows: int, *, eight_bits: bool) -> Iterator[SmallTiles]:
    """Tiles of small_m_gemm."""
    if rows <= small_m_gemm.MAX_ROWS:
        for tile in (16, 32, 64, 128):
            if (tiles := small_m_gemm.fit_tiles(tile, rows, product.K, 2, 1 if eight_bits else 2)) is not None:
                yield tiles


def medium_tiles(product: Product, rows: int) -> Iterator[MediumTiles]:
    """Tiles of medium_m_gemm: as many weights ahead as have room, in all of a multiprocessor's memory or in half."""
    if rows > medium_m_gemm.MAX_ROWS:
        return
    outputs = product.N * (2 if product.gated else 1)
    sizes = itertools.product((16, 32, 64, 128), (64, 128), (3, 4, 6), (2, 1))
    for BN, BK, rows_ahead, programs in sizes:
        # Of sums a thread has no more in registers.
        if product.K % (PARTS * BK) or outputs // BN < 32 or BN * medium_m_gemm.block_rows(rows) // 32 > 128:
            continue
        for weights_ahead in range(product.K // (PARTS * BK), rows_ahead - 1, -1):
            tiles = MediumTiles(BN, BK, weights_ahead, rows_ahead)
            if medium_m_gemm.shared_bytes(tiles, rows) <= shared_memory() // programs:
                yield tiles
                break


def keeps_bits(product: Product, tiles: Tiles) -> bool:
    """Whether they may cut a matrix of eight bits: ``gemm.choose_tiles`` and the kernel say why."""
    has_steps = tiles.split_k or tiles.BK * PARTS < product.K
    return has_steps and gemm.has_many_rows(tiles, gated=product.gated)


class Weights(NamedTuple):
    """Shapes: weight [N, K], or [2 N, K] with the gate above; scale [N] or [2 N] float32, of eight bits."""

    weight: Tensor
    scale: Tensor | None = None

    @classmethod
    def of(cls, weight: Tensor, *, eight_bits: bool) -> Weights:
        if not eight_bits:
            return cls(weight)
        rounded = Int8.of(weight)
        return cls(rounded.values, rounded.steps)

    def widened(self, dtype: torch.dtype) -> Tensor:
        return self.weight if self.scale is None else (self.weight * self.scale[:, None]).to(dtype)


class Bench:
    """One product's weights and inputs, and what a launch of it takes. Milliseconds become microseconds."""

    def __init__(self, product: Product, rows: int, spread: int = SPREAD, *, eight_bits: bool = False) -> None:
        self.product = product
        count = -(-spread // (product.bytes // (2 if eight_bits else 1)))
        shape = product.N * (2 if product.gated else 1), product.K
        generator = torch.Generator("cuda").manual_seed(0)

        def random(*shape: int) -> Tensor:
            return torch.randn(shape, device="cuda", generator=generator).bfloat16()

        random_weights = (random(*shape) * product.K**-0.5 for _ in range(count))
        self.weights = [Weights.of(weight, eight_bits=eight_bits) for weight in random_weights]
        # The first row is the same whatever the rows, so that its bits can be compared from one table to the next.
        count = max(rows, MAX_ROWS)
        self.x = random(count, product.K)[:rows]
        self.residual = random(count, product.N)[:rows]

    def run(self, weights: Weights, how: AnyTiles | None = None, rows: int | None = None) -> Tensor:
        x, residual, (weight, scale) = self.x[:rows], self.residual[:rows] if self.product.residual else None, weights
        if isinstance(how, SmallTiles):
            return small_m_gemm.small_m_gemm(x, weight, how, scale=scale, residual=residual, gated=self.product.gated)
        if isinstance(how, MediumTiles):
            return medium_m_gemm.medium_m_gemm(x, weight, how, residual=residual, gated=self.product.gated)
        if self.product.gated:
            return gemm.swiglu(x, weight, scale=scale, tiles=how)
        return gemm.gemm(x, weight, scale=scale, residual=residual, tiles=how)

    def library(self, weights: Weights) -> Tensor:
        """The twin: one operation after the other."""
        out = self.x @ weights.widened(self.x.dtype).t()
        if self.product.gated:
            gate, up = out.chunk(2, -1)
            return torch.nn.functional.silu(gate) * up
        return self.residual + out if self.product.residual else out

    def time(self, work: Callable[[Weights], Tensor]) -> float:
        """Microseconds of a launch in a graph of many."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            work(self.weights[0])
            stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                for number in range(CHAIN):
                    work(self.weights[number % len(self.weights)])
            graph.replay()
            spent = []
            for _ in range(REPEATS):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")  # type: ignore[no-untyped-call]
                start.record()
                graph.replay()
                end.record()
                end.synchronize()
                spent.append(start.elapsed_time(end))
        return 1000 * statistics.median(spent) / CHAIN


def kind(how: AnyTiles) -> str:
    """Which kernel that is."""
    if isinstance(how, SmallTiles | MediumTiles):
        return "small_m_gemm" if isinstance(how, SmallTiles) else "medium_m_gemm"
    return "split_k" if how.split_k else "gemm"


def compile_one(product: Product, rows: int, tiles: AnyTiles, *, eight_bits: bool) -> str:
    """In a process of its own, so that compilations run beside each other; the cache on disk keeps what came out."""
    try:
        bench = Bench(product, rows, 1, eight_bits=eight_bits)
        bench.run(bench.weights[0], tiles)
        torch.cuda.synchronize()
    except Exception as error:
        return f"{product.name} {tiles}: {type(error).__name__} {str(error)[:90]}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 32, 64])
    parser.add_argument("--only", default="", help="products whose name holds this")
    parser.add_argument("--keep", type=int, default=12, help="tiles of one row that are timed with more rows")
    parser.add_argument("--kernel", choices=KERNELS, help="tiles of one kernel only")
    parser.add_argument("--eight-bits", action="store_true", help="weights of whole numbers of eight bits")
    parser.add_argument("--processes", type=int, default=14)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    eight_bits = arguments.eight_bits
    found = []
    with ProcessPoolExecutor(arguments.processes, mp_context=get_context("spawn")) as pool:
        for product in PRODUCTS:
            if arguments.only not in product.name:
                continue
            place = product.N, product.K
            kept, floor = list(candidates(product, 1)), product.bytes / (2 if eight_bits else 1) / 4.3e6
            for rows in arguments.rows:
                began = time.perf_counter()
                wanted: list[AnyTiles] = [tiles for tiles in kept if tiles in set(candidates(product, rows))]
                wanted += [*split_ks(product, rows), *small_tiles(product, rows, eight_bits=eight_bits)]
                wanted += [] if eight_bits else dict.fromkeys(medium_tiles(product, rows))
                # Those of few rows beside them: their bits are the ones to be kept.
                how = {"gated": product.gated, "eight_bits": eight_bits}
                chosen = [gemm.choose_tiles(*place, count, **how) for count in (1, 64, rows)]
                if rows > gemm.FEW:
                    wanted = [*wides(product), *wide_split_ks(product)]
                if eight_bits:
                    wanted = [tiles for tiles in wanted if not isinstance(tiles, Tiles) or keeps_bits(product, tiles)]
                if arguments.kernel is not None:
                    wanted = [tiles for tiles in wanted if kind(tiles) == arguments.kernel]
                wanted = list(dict.fromkeys((*chosen, *wanted)))
                jobs = [pool.submit(compile_one, product, rows, tiles, eight_bits=eight_bits) for tiles in wanted]
                failures = [job.result() for job in jobs]
                bench = Bench(product, rows, eight_bits=eight_bits)
                library = bench.time(bench.library)
                truth = bench.library(bench.weights[0]).float()
                times = []
                for tiles, failure in zip(wanted, failures, strict=True):
                    if failure:
                        print(failure, file=sys.stderr)
                        continue
                    out = bench.run(bench.weights[0], tiles)
                    error = float((out.float() - truth).norm() / truth.norm())
                    alone = bench.run(bench.weights[0], tiles, 1)
                    same = torch.equal(alone[0], out[0])
                    family = zlib.crc32(alone[0].cpu().view(torch.int16).numpy().tobytes()) % 0x10000
                    times.append((bench.time(partial(bench.run, how=tiles)), error, same, family, tiles))
                times.sort(key=lambda timed: timed[0])
                took = time.perf_counter() - began
                print(f"\n{product.name}, {rows} rows: floor {floor:.1f} us, library {library:.1f} us ({took:.0f} s)")
                best_of = {(family, kind(tiles)): (spent, tiles) for spent, _, _, family, tiles in reversed(times)}
                shown = [
                    timed
                    for timed in times
                    if timed in times[:8] or best_of[timed[3], kind(timed[4])] == (timed[0], timed[4])
                ]
                for spent, error, same, family, tiles in shown:
                    bits = f"{family:04x}" if same else "OTHER BITS"
                    print(f"  {spent:6.2f} us  error {error:.1e}  bits {bits}  {kind(tiles)} {tuple(tiles)}")
                found += [
                    {
                        "product": product.name,
                        "rows": rows,
                        "us": spent,
                        "error": error,
                        "same": same,
                        "bits": family,
                        "tiles": tiles,
                    }
                    for spent, error, same, family, tiles in times
                ]
                if rows == arguments.rows[0]:
                    kept = [tiles for *_, tiles in times if isinstance(tiles, Tiles)][: arguments.keep]
    if arguments.json:
        arguments.json.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
