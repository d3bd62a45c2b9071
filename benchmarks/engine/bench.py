"""Command `voicewright bench`, which measures TTFA, and frame times by batch size."""

from __future__ import annotations

import asyncio
import json

from benchmarks.common.report import Row, Tables, machine_description, markdown
from benchmarks.common.variants import Variant
from benchmarks.engine.tables import BenchmarkSizes, measure_parts, open_parts
from benchmarks.serve.load import measure_closed
from benchmarks.serve.plan import Workload
from benchmarks.serve.targets import open_targets
from runtime.engine.loading.registry import Registry
from runtime.settings import Settings

BATCHES = (1, 4, 16)
GRID = BenchmarkSizes(BATCHES, contexts=(64,), prompts=(32,), chunks=tuple((1, batch) for batch in BATCHES))
CLIENTS = (1, 4, 8)


def bench(settings: Settings, replies: int, as_json: bool) -> None:
    """Measure the checkpoints in the settings, and print the results.

    Args:
        settings: Settings of the engine, with the checkpoints.
        replies: Minimum number of measured responses per number of clients.
        as_json: True to print JSON, False to print Markdown tables.
    """
    tables = measure(settings, replies)
    print(json.dumps({"machine": machine_description(), **tables}, indent=2) if as_json else markdown(tables))


def measure(settings: Settings, replies: int) -> Tables:
    """Measure the checkpoints in the settings, and return the result tables.

    `replies` is the minimum number of measured responses per number of clients.
    """
    parts = measure_parts([("ours", open_parts(settings, GRID))], GRID)
    websocket = asyncio.run(_measure_websocket(settings, replies))
    return {**parts, "websocket": websocket}


async def _measure_websocket(settings: Settings, replies: int) -> list[Row]:
    environment = {
        "VOICEWRIGHT_MODEL": " ".join(settings.models),
        "VOICEWRIGHT_DEVICE": settings.engine.device,
        "VOICEWRIGHT_DTYPE": settings.engine.dtype,
    }
    load = Workload(Registry.read(settings.models).modes[0])
    async with open_targets([Variant("ours", {})], environment) as targets:
        return await measure_closed(targets, [load], CLIENTS, replies)
