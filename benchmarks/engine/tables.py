"""Result tables of the engine benchmark, one table for each part of the engine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.metrics import percentiles
from benchmarks.common.report import Row, Tables, log_step
from benchmarks.engine.model_parts import ModelParts, timed
from runtime.engine.execution.graphs import GraphKind
from runtime.setting_fields import override
from runtime.settings import Settings

WARM_UP = 5


@dataclass(frozen=True, slots=True)
class BenchmarkSizes:
    """Sizes at which the parts of the engine are measured, for example batch sizes.

    `chunks` are pairs (frames, batch size) of Code2Wav calls.
    """

    batches: tuple[int, ...] = (1, 8, 32, 64)
    contexts: tuple[int, ...] = (64, 512, 2048)
    prompts: tuple[int, ...] = (32, 128, 512)
    chunks: tuple[tuple[int, int], ...] = ((1, 1), (1, 8), (1, 32), (4, 8), (12, 1), (12, 8), (12, 32), (12, 64))
    counted: int = 30


def open_parts(settings: Settings, grid: BenchmarkSizes) -> ModelParts:
    """Load the first checkpoint for measurements.

    The engine has slots for the largest batch, and no limit for buffered audio.
    """
    slots = max(settings.engine.max_slots, *grid.batches)
    engine = override(settings.engine, max_slots=slots, lead_cap_s=1e9)
    return ModelParts(replace(settings, models=settings.models[:1], engine=engine))


def measure_parts(variants: Sequence[tuple[str, ModelParts]], grid: BenchmarkSizes) -> Tables:
    """Measure all parts of the engine at each size, and return the result tables.

    Several variants are measured in the order A B B A.
    """
    order = [*variants, *reversed(variants)] if len(variants) > 1 else list(variants)

    def rows(points: Sequence[Row], measure: Callable[..., Row]) -> list[Row]:
        found = []
        for point in points:
            log_step(f"{measure.__name__.strip('_')}: {', '.join(f'{name} {value}' for name, value in point.items())}")
            runs = [(name, measure(parts, grid, **point)) for name, parts in order]
            for name, _ in variants:
                mine = [metrics for owner, metrics in runs if owner == name]
                found.append({"variant": name, **point, **_mean(mine)})
        return found

    max_positions = min(parts.max_positions for _, parts in variants) - WARM_UP - 3 * grid.counted
    contexts = [context for context in grid.contexts if context <= max_positions]
    return {
        "frames": rows([{"batch": b, "context": c} for c in contexts for b in grid.batches], _frames),
        "predictor": rows([{"batch": b} for b in grid.batches], _predictor),
        "prefill": rows([{"positions": p} for p in grid.prompts if p <= max_positions], _prefill),
        "code2wav": rows([{"frames": f, "batch": b} for f, b in grid.chunks if b <= max(grid.batches)], _code2wav),
        "start": [_start(name, parts) for name, parts in variants],
    }


def _frames(parts: ModelParts, grid: BenchmarkSizes, batch: int, context: int) -> Row:
    slots = parts.begin_rows(batch, context)
    for _ in range(WARM_UP):
        parts.launch(slots)()
    spent = [timed(lambda: parts.launch(slots)()) for _ in range(grid.counted)]
    host: list[float] = []
    streaming = timed(lambda: _run_ahead(parts, slots, grid.counted, host))
    parts.end_rows(slots)
    return {
        "frame_ms": round(streaming / grid.counted, 3),  # The host launches one frame ahead, as in the engine.
        **percentiles("alone", spent, 50, 95, digits=3),
        "launch_ms": round(statistics.median(host), 3),
    }


def _run_ahead(parts: ModelParts, slots: NDArray[np.int64], frames: int, host: list[float]) -> None:
    """Launch each frame before the previous frame is read.

    Args:
        host: List to which the host's launch times in ms are appended.
    """
    before: Callable[[], object] | None = None
    for _ in range(frames):
        start = time.perf_counter()
        launched = parts.launch(slots)
        host.append(1000 * (time.perf_counter() - start))
        if before is not None:
            before()
        before = launched
    if before is not None:
        before()


def _predictor(parts: ModelParts, grid: BenchmarkSizes, batch: int) -> Row:
    return {"predictor_ms": _median(lambda: parts.predict(batch), grid.counted)}


def _prefill(parts: ModelParts, grid: BenchmarkSizes, positions: int) -> Row:
    return {"prefill_ms": _median(lambda: parts.prefill(positions), grid.counted)}


def _code2wav(parts: ModelParts, grid: BenchmarkSizes, frames: int, batch: int) -> Row:
    slots = parts.begin_streams(batch)
    spent = _median(lambda: parts.decode(slots, frames), grid.counted)
    parts.end_rows(slots)
    return {"code2wav_ms": spent}


def _start(name: str, parts: ModelParts) -> Row:
    gib = round(parts.device_bytes / 2**30, 2)
    captured = sum(len(parts.core.runner.graphs.of(work)) for work in GraphKind)
    size = {"slots": parts.core.slots, "positions": parts.max_positions, "graphs": captured}
    return {"variant": name, "seconds": round(parts.start_s, 2), "device_gib": gib, **size}


def _median(work: Callable[[], object], counted: int) -> float:
    for _ in range(WARM_UP):
        timed(work)
    return round(statistics.median(timed(work) for _ in range(counted)), 3)


def _mean(runs: Sequence[Row]) -> Row:
    return {name: round(statistics.mean(run[name] for run in runs), 3) for name in runs[0]}
