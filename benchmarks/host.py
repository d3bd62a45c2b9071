"""What a turn of the engine costs the host beside the networks, by the number of rows that speak.

The networks are replaced by answers of the right shape, so that what is left is the scheduler, the books that the
station keeps, and the hand-over of sound.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.parts import timed, without_networks
from runtime.engine.engine import Engine
from runtime.request import AudioChunk, Layout, SpeechEvent, SpeechRequest
from runtime.settings import Settings, override

TURNS = 400
TEXT = "The harbour was quiet, and the lights of the last boat went out one by one. " * 4


def measure_host(settings: Settings, rows: tuple[int, ...]) -> list[dict[str, Any]]:
    """Milliseconds of a turn in which every row makes a frame, and of those in which none has sound due."""
    return [_one(settings, count) for count in rows]


def _one(settings: Settings, count: int) -> dict[str, Any]:
    settings = Settings(
        models=settings.models,
        limits=settings.limits,
        engine=override(settings.engine, max_slots=count, lead_cap_s=1e9),
        modes=settings.modes,
    )
    engine = Engine.open(settings)
    (station,) = engine.registry.stations
    chunks = 0

    def sink(event: SpeechEvent) -> None:
        nonlocal chunks
        chunks += isinstance(event, AudioChunk)

    mode = station.checkpoint.config.modes[0]
    layout = Layout.NON_STREAMING if Layout.NON_STREAMING in station.checkpoint.config.layouts else None
    for seed in range(count):
        engine.submit(SpeechRequest(text=TEXT, mode=mode, layout=layout, seed=seed, max_frames=TURNS + 200), sink)
    while station.reading or len(station.holders) < count:
        engine.tick()
    without_networks(station)
    station.rows.dry_at[:] = time.monotonic() + 1e6  # nobody is in a hurry: chunks are as large as they get
    for _ in range(20):
        engine.tick()
    spent = [timed(engine.tick) for _ in range(TURNS)]
    spent.sort()
    return {
        "rows": count,
        "turn_p50_ms": round(spent[TURNS // 2], 3),
        "turn_p95_ms": round(spent[int(0.95 * TURNS)], 3),
        "per_row_us": round(1000 * sum(spent) / TURNS / count, 1),
        "chunks_a_turn": round(chunks / (TURNS + 20), 2),
    }
