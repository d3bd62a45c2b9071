"""Milliseconds of the engine's parts by batch and context, without sockets and threads."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import nearest_rank, rounded
from benchmarks.parts import Parts, timed
from runtime.knobs import override
from runtime.settings import Settings

Row = dict[str, Any]
WARM_UP, COUNTED = 5, 30


@dataclass(frozen=True, slots=True)
class Grid:
    """What is measured."""

    batches: tuple[int, ...] = (1, 8, 32, 64)
    contexts: tuple[int, ...] = (64, 512, 2048)
    prompts: tuple[int, ...] = (32, 128, 512)
    sounds: tuple[tuple[int, int], ...] = ((1, 1), (1, 8), (1, 32), (4, 8), (12, 1), (12, 8), (12, 32), (12, 64))
    counted: int = COUNTED


def measure_engine(
    arms: Sequence[tuple[str, Settings]],
    grid: Grid,
    tell: Callable[[str], None] = lambda step: None,
    opened: Sequence[Parts] = (),
) -> dict[str, list[Row]]:
    """Tables of frames, code predictor, prefill, Code2Wav and start-up; every arm at every point, A B B A.

    Many rows take minutes: each has graphs to be captured, and a prompt to be read at every point. ``tell`` hears what
    is measured next. ``opened``: the parts of every arm, where they are there already and large enough.
    """
    names = [name for name, _ in arms]
    every = opened or [Parts(_sized(settings, grid), tell) for _, settings in arms]
    named = list(zip(names, every, strict=True))
    order = [*named, *reversed(named)] if len(named) > 1 else named

    def rows(points: Sequence[Row], measure: Callable[..., Row]) -> list[Row]:
        found = []
        for point in points:
            tell(f"{measure.__name__.strip('_')}: {', '.join(f'{name} {value}' for name, value in point.items())}")
            runs = [(name, measure(parts, grid.counted, **point)) for name, parts in order]
            for name in names:
                mine = [figures for owner, figures in runs if owner == name]
                found.append({"arm": name, **point, **_mean(mine)})
        return found

    longest = min(parts.longest for parts in every) - WARM_UP - 3 * grid.counted
    contexts = [context for context in grid.contexts if context <= longest]
    return {
        "frames": rows([{"batch": b, "context": c} for c in contexts for b in grid.batches], _frames),
        "predictor": rows([{"batch": b} for b in grid.batches], _predictor),
        "prefill": rows([{"positions": p} for p in grid.prompts if p <= longest], _prefill),
        "code2wav": rows([{"frames": f, "batch": b} for f, b in grid.sounds if b <= max(grid.batches)], _sound),
        "start": [
            {
                "arm": name,
                "seconds": round(parts.start_s, 2),
                "device_gib": round(parts.device_bytes / 2**30, 2),
                "slots": parts.core.slots,
                "positions": parts.longest,
            }
            for name, parts in named
        ],
    }


def _frames(parts: Parts, counted: int, batch: int, context: int) -> Row:
    slots = parts.begin(batch, context)
    for _ in range(WARM_UP):
        parts.launch(slots)()
    spent = [timed(lambda: parts.launch(slots)()) for _ in range(counted)]
    host: list[float] = []
    streaming = timed(lambda: _run_ahead(parts, slots, counted, host))
    parts.end(slots)
    return {
        "frame_ms": round(streaming / counted, 3),  # the host one frame ahead, as in service
        "alone_p50_ms": rounded(nearest_rank(spent, 0.5), 3),
        "alone_p95_ms": rounded(nearest_rank(spent, 0.95), 3),
        "launch_ms": round(statistics.median(host), 3),
    }


def _run_ahead(parts: Parts, slots: NDArray[np.int64], frames: int, host: list[float]) -> None:
    """Launch each frame before the one before it is read; keeps how long the host took to launch."""
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


def _predictor(parts: Parts, counted: int, batch: int) -> Row:
    return {"predictor_ms": _median(lambda: parts.predict(batch), counted)}


def _prefill(parts: Parts, counted: int, positions: int) -> Row:
    return {"prefill_ms": _median(lambda: parts.prefill(positions), counted)}


def _sound(parts: Parts, counted: int, frames: int, batch: int) -> Row:
    slots = parts.begin_streams(batch)
    spent = _median(lambda: parts.decode(slots, frames), counted)
    parts.end(slots)
    return {"code2wav_ms": spent}


def _median(work: Callable[[], object], counted: int) -> float:
    for _ in range(WARM_UP):
        timed(work)
    return round(statistics.median(timed(work) for _ in range(counted)), 3)


def _mean(runs: Sequence[Row]) -> Row:
    return {name: round(statistics.mean(run[name] for run in runs), 3) for name in runs[0]}


def _sized(settings: Settings, grid: Grid) -> Settings:
    return Settings(
        models=settings.models,
        limits=settings.limits,
        engine=override(settings.engine, max_slots=max(settings.engine.max_slots, *grid.batches)),
        modes=settings.modes,
        server=settings.server,
    )
