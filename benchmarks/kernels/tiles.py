"""Measurement of all tile sizes for the matrix products of a frame, fastest first."""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.common.report import Row, log_step
from runtime.device.kernels import gemm, medium_m_gemm, shared_memory, small_m_gemm
from runtime.device.kernels.gemm import MAX_ROWS, PARTS, Tiles
from runtime.device.kernels.medium_m_gemm import MediumTiles
from runtime.device.kernels.small_m_gemm import SmallTiles
from runtime.device.quantized import Int8

AnyTiles = Tiles | SmallTiles | MediumTiles
GPU = torch.device("cuda")
LAUNCHES, REPLAYS = 40, 5
WEIGHT_BYTES = 256 * 2**20  # Total size of the weights that are used cyclically, which is several times the cache size.
MAX_TILE_BYTES = 200_000
SHOWN_TILES = 8


@dataclass(frozen=True, slots=True)
class Product:
    """Matrix product in the generation of a frame, with N output and K input features."""

    name: str
    N: int
    K: int
    gated: bool = False
    residual: bool = False

    @property
    def bytes(self) -> int:
        """Return the size of the product's weights in bytes, if they are bfloat16."""
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


def candidates(product: Product, rows: int, *, eight_bits: bool) -> Iterator[AnyTiles]:
    """Yield the tile sizes to measure for a matrix product.

    They include the sizes that the engine chooses, and all other sizes that fit.

    Args:
        product: Matrix product.
        rows: Batch size.
        eight_bits: True for int8 weights.
    """
    for count in (1, 64, rows):
        yield gemm.choose_tiles(product.N, product.K, count, gated=product.gated, eight_bits=eight_bits)
    of_gemm = (_few, _few_split_k) if rows <= gemm.MAX_SMALL_ROWS else (_many, _many_split_k)
    for tiles in itertools.chain.from_iterable(find(product, rows) for find in of_gemm):
        if not eight_bits or _keeps_bits(product, tiles):
            yield tiles
    yield from _small(product, rows, eight_bits=eight_bits)
    yield from _medium(product, rows, eight_bits=eight_bits)


def _few(product: Product, rows: int) -> Iterator[Tiles]:
    """Yield tile sizes for few rows whose buffers fit into shared memory."""
    BM = min(64, max(16, rows))
    for BN, BK, warps, stages in itertools.product((16, 32, 64), (128, 256, 512), (4, 8), (2, 3, 4, 6)):
        tile = BN * (2 if product.gated else 1)
        buffers = (tile + BM) * BK * 2 * stages
        # A step covers one part of K if the parts are computed sequentially, and all parts if the parts are computed in
        # parallel.
        is_tall = tile >= gemm.MANY_ROWS.value
        if product.N % BN or (product.K // PARTS if is_tall else product.K) % BK or not (is_tall or BK >= 64 * PARTS):
            continue
        if not 30_000 <= buffers <= MAX_TILE_BYTES or not 16 <= product.N // BN <= 400 or stages * BK > product.K + BK:
            continue
        for prefetch in (False, True):
            yield Tiles(BN, BK, PARTS, warps, stages, prefetch)


def _few_split_k(product: Product, rows: int) -> Iterator[Tiles]:
    """Yield tile sizes for few rows, with a separate program for each part of K."""
    if product.gated:
        return
    for BN, BK, warps, stages, prefetch in itertools.product((32, 64), (128, 256), (4, 8), (2, 3, 4), (False, True)):
        if product.N % BN or product.K % (PARTS * BK) or stages * BK * PARTS > product.K + BK * PARTS:
            continue
        if (BN + min(64, max(16, rows))) * BK * 2 * stages <= MAX_TILE_BYTES:
            yield Tiles(BN, BK, PARTS, warps, stages, prefetch, True)


def _many(product: Product, rows: int) -> Iterator[Tiles]:
    """Yield tile sizes for many rows, which have more rows per program."""
    for BM, BN, BK, warps, stages in itertools.product((64, 128, 256), (32, 64, 128, 256), (64, 128), (4, 8), (3, 4)):
        tile = BN * (2 if product.gated else 1)
        sums = tile * BM // (32 * warps)  # Number of accumulators per thread, which are in registers.
        if tile >= 64 and (tile + BM) * BK * 2 * stages <= MAX_TILE_BYTES and 32 <= sums <= 100:
            yield Tiles(BN, BK, PARTS, warps, stages, BM=BM)


def _many_split_k(product: Product, rows: int) -> Iterator[Tiles]:
    """Yield tile sizes for many rows, with a separate program for each part of K.

    They suit products with few outputs.
    """
    if product.gated:
        return
    for BM, BN, BK, warps, stages in itertools.product((64, 128, 256), (64, 128), (64, 128), (4, 8), (3, 4)):
        fits = product.K % (PARTS * BK) == 0 and (BN + BM) * BK * 2 * stages <= MAX_TILE_BYTES
        if fits and 16 <= BN * BM // (32 * warps) <= 128:
            yield Tiles(BN, BK, PARTS, warps, stages, split_k=True, BM=BM)


def _small(product: Product, rows: int, *, eight_bits: bool) -> Iterator[SmallTiles]:
    if rows <= small_m_gemm.MAX_ROWS:
        for tile in (16, 32, 64, 128):
            if (tiles := small_m_gemm.fit_tiles(tile, rows, product.K, 2, 1 if eight_bits else 2)) is not None:
                yield tiles


def _medium(product: Product, rows: int, *, eight_bits: bool) -> Iterator[MediumTiles]:
    """Yield tile sizes with as many prefetched weights as fit into shared memory.

    A program uses all or half of the shared memory of a multiprocessor.
    """
    if rows > medium_m_gemm.ROWS[-1]:
        return
    outputs = product.N * (2 if product.gated else 1)
    sizes = itertools.product((16, 32, 64, 128), (64, 128), (2, 3, 4, 6), (2, 1))
    for BN, BK, rows_ahead, programs in sizes:
        # A thread does not have enough registers for more accumulators.
        if product.K % (PARTS * BK) or outputs // BN < 32 or BN * medium_m_gemm.block_rows(rows) // 32 > 128:
            continue
        for weights_ahead in range(product.K // (PARTS * BK), rows_ahead - 1, -1):
            tiles = MediumTiles(BN, BK, weights_ahead, rows_ahead)
            if medium_m_gemm.shared_bytes(tiles, rows, 1 if eight_bits else 2) <= shared_memory() // programs:
                yield tiles
                break


def _keeps_bits(product: Product, tiles: Tiles) -> bool:
    """True if an int8 product with these tiles is batch-invariant (see `gemm.choose_tiles`)."""
    has_steps = tiles.split_k or tiles.BK * PARTS < product.K
    return has_steps and gemm.has_many_rows(tiles, gated=product.gated)


class Weights(NamedTuple):
    """Weights of a matrix product, with scales if they are int8.

    Shapes: weight [N, K], or [2 N, K] with the gate first. scale [N] or [2 N] float32, only for int8.
    """

    weight: Tensor
    scale: Tensor | None = None

    @classmethod
    def of(cls, weight: Tensor, *, eight_bits: bool) -> Weights:
        if not eight_bits:
            return cls(weight)
        rounded = Int8.of(weight)
        return cls(rounded.values, rounded.scales)

    def upcast(self, dtype: torch.dtype) -> Tensor:
        return self.weight if self.scale is None else (self.weight * self.scale[:, None]).to(dtype)


class Bench:
    """Random weights and inputs for the measurement of one matrix product."""

    def __init__(self, product: Product, rows: int, spread: int = WEIGHT_BYTES, *, eight_bits: bool = False) -> None:
        self.product = product
        count = -(-spread // (product.bytes // (2 if eight_bits else 1)))
        shape = product.N * (2 if product.gated else 1), product.K
        generator = torch.Generator(GPU).manual_seed(0)

        def random(*shape: int) -> Tensor:
            return torch.randn(shape, device=GPU, generator=generator).bfloat16()

        random_weights = (random(*shape) * product.K**-0.5 for _ in range(count))
        self.weights = [Weights.of(weight, eight_bits=eight_bits) for weight in random_weights]
        # The values of the first row do not depend on the number of rows, so its results can be compared between batch
        # sizes.
        count = max(rows, MAX_ROWS)
        self.x = random(count, product.K)[:rows]
        self.residual = random(count, product.N)[:rows]

    def run(self, weights: Weights, tiles: AnyTiles | None = None, rows: int | None = None) -> Tensor:
        x, residual, (weight, scale) = self.x[:rows], self.residual[:rows] if self.product.residual else None, weights
        if isinstance(tiles, SmallTiles):
            return small_m_gemm.small_m_gemm(x, weight, tiles, scale=scale, residual=residual, gated=self.product.gated)
        if isinstance(tiles, MediumTiles):
            return medium_m_gemm.medium_m_gemm(
                x, weight, tiles, scale=scale, residual=residual, gated=self.product.gated
            )
        if self.product.gated:
            return gemm.swiglu(x, weight, scale=scale, tiles=tiles)
        return gemm.gemm(x, weight, scale=scale, residual=residual, tiles=tiles)

    def library(self, weights: Weights) -> Tensor:
        """Compute the matrix product with PyTorch operations, to compare it with the kernels."""
        out = self.x @ weights.upcast(self.x.dtype).t()
        if self.product.gated:
            gate, up = out.chunk(2, -1)
            return torch.nn.functional.silu(gate) * up
        return self.residual + out if self.product.residual else out


def kind(tiles: AnyTiles) -> str:
    """Return the name of the kernel that has these tile sizes as parameters."""
    if isinstance(tiles, SmallTiles | MediumTiles):
        return "small_m_gemm" if isinstance(tiles, SmallTiles) else "medium_m_gemm"
    return "split_k" if tiles.split_k else "gemm"


def compile_one(product: Product, rows: int, tiles: AnyTiles, *, eight_bits: bool) -> str:
    """Compile the kernel of a matrix product into the disk cache.

    The result is the error message, or an empty string. This function runs in a separate process.
    """
    try:
        bench = Bench(product, rows, 1, eight_bits=eight_bits)
        bench.run(bench.weights[0], tiles)
        torch.cuda.synchronize()
    except Exception as error:
        return f"{product.name} {tiles}: {type(error).__name__} {str(error)[:90]}"
    return ""


def search_tiles(only: str, rows: tuple[int, ...], *, eight_bits: bool) -> list[Row]:
    """Measure all tile sizes, and return table rows with their launch times, fastest first.

    Args:
        only: Text that the name of a measured product must contain.
        rows: Batch sizes.
        eight_bits: True for int8 weights.
    """
    found: list[Row] = []
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for product, count in itertools.product(PRODUCTS, rows):
            if only in product.name:
                found += _time_all(pool, product, count, eight_bits=eight_bits)
    return found


def _time_all(pool: ProcessPoolExecutor, product: Product, rows: int, *, eight_bits: bool) -> list[Row]:
    wanted = dict.fromkeys(candidates(product, rows, eight_bits=eight_bits))
    jobs = {tiles: pool.submit(compile_one, product, rows, tiles, eight_bits=eight_bits) for tiles in wanted}
    bench = Bench(product, rows, eight_bits=eight_bits)
    weights, count = bench.weights, len(bench.weights)
    truth = bench.library(weights[0]).float()
    library_us = launch_us(lambda number: bench.library(weights[number % count]))
    found: list[Row] = []
    for tiles, job in jobs.items():
        if failure := job.result():
            print(failure, file=sys.stderr)
            continue
        out, alone = bench.run(weights[0], tiles), bench.run(weights[0], tiles, 1)
        bits = zlib.crc32(alone[0].cpu().view(torch.int16).numpy().tobytes()) % 0x10000
        took = launch_us(lambda number, tiles=tiles: bench.run(weights[number % count], tiles))  # type: ignore[misc]
        found.append(
            {
                **{"product": product.name, "rows": rows, "us": round(took, 2), "kernel": kind(tiles)},
                "error": float((out.float() - truth).norm() / truth.norm()),
                "bits": f"{bits:04x}" if torch.equal(alone[0], out[0]) else "differ",
                "library_us": round(library_us, 2),
                "tiles": tiles,
            }
        )
    found.sort(key=lambda row: row["us"])
    log_step(f"{product.name}, {rows} rows: {[(row['us'], row['kernel']) for row in found[:SHOWN_TILES]]}")
    return found


def launch_us(launch: Callable[[int], object]) -> float:
    """Return the time of one kernel launch in microseconds.

    Many launches are measured in one CUDA graph. `launch` is called with the number of the launch.
    """
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        launch(0)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for number in range(LAUNCHES):
                launch(number)
        graph.replay()
        spent = []
        for _ in range(REPLAYS):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")  # type: ignore[no-untyped-call]
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            spent.append(start.elapsed_time(end))
    return 1000 * statistics.median(spent) / LAUNCHES
