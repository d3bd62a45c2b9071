"""What a turn of the engine costs the host beside the networks, by the number of rows that speak.

The networks are replaced by answers of the right shape, so that what is left is the scheduler, the books that the
engine core keeps, and the hand-over of sound.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.cast import request_for
from benchmarks.parts import timed, without_networks
from runtime.engine.engine import Engine
from runtime.knobs import override
from runtime.request import AudioChunk, SpeechEvent
from runtime.settings import Settings

TURNS = 400
POSITIONS = 1024  # that the prompt and its frames need
TEXT = "The harbour was quiet, and the lights of the last boat went out one by one. " * 4


def measure_host(
    settings: Settings, rows: Sequence[int], tell: Callable[[str], None] = lambda step: None
) -> list[dict[str, Any]]:
    """Milliseconds of a turn in which every row makes a frame, and of those in which none has sound due."""
    sized = override(settings.engine, max_slots=max(rows), max_model_len=POSITIONS, lead_cap_s=1e9)
    engine = Engine.open(replace(settings, engine=sized), lambda loaded, of, step: tell(step))
    found = []
    for count in rows:
        tell(f"host: rows {count}")
        found.append(_one(engine, count))
    return found


def _one(engine: Engine, count: int) -> dict[str, Any]:
    core = engine.registry.cores[0]
    chunks = 0

    def sink(event: SpeechEvent) -> None:
        nonlocal chunks
        chunks += isinstance(event, AudioChunk)

    card = engine.cards[0]
    requests = (request_for(card, card.modes[0], TEXT, TURNS + 200, seed, is_live=False) for seed in range(count))
    tickets = [engine.submit(request, sink) for request in requests]
    with without_networks(core):  # prompts are read all the same; none ends before all speak
        while core.prefilling or len(core.holders) < count:
            engine.tick()
        core.table.buffer_empty_at[:] = time.monotonic() + 1e6  # no row is in a hurry: chunks are as large as they get
        for _ in range(20):
            engine.tick()
        spent = sorted(timed(engine.tick) for _ in range(TURNS))
        for ticket in tickets:
            engine.cancel(ticket)
        engine.tick()
    return {
        "rows": count,
        "turn_p50_ms": round(spent[TURNS // 2], 3),
        "turn_p95_ms": round(spent[int(0.95 * TURNS)], 3),
        "per_row_us": round(1000 * sum(spent) / TURNS / count, 1),
        "chunks_a_turn": round(chunks / (TURNS + 20), 2),
    }
