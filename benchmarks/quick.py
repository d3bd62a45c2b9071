"""The short benchmark: frames by batch, the host's own work, TTFA over the WebSocket (`voicewright bench`).

The suites of benchmarks/suite.py measure the same things at length.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
from typing import Any

import torch

from benchmarks import suites
from benchmarks.engine import Grid, measure_engine
from benchmarks.host import measure_host
from benchmarks.imports import measure_imports
from benchmarks.lanes import Arm, opened
from benchmarks.plan import ROUNDS
from benchmarks.report import tables_of
from runtime.engine.registry import Registry
from runtime.settings import Settings

BATCHES = (1, 4, 16)
GRID = Grid(BATCHES, contexts=(64,), prompts=(32,), sounds=tuple((1, batch) for batch in BATCHES))
CLIENTS = (1, 4, 8)
ROWS = (1, 16, 64)  # of the host's own work
TABLES = ("frames", "predictor", "prefill", "code2wav", "start", "imports", "host", "websocket")


def run(settings: Settings, replies: int) -> dict[str, Any]:
    """All figures of one run; the settings' models, device and dtype are measured."""
    return {
        "machine": {"cpu": platform.processor() or platform.machine(), "torch": torch.__version__},
        "threads": torch.get_num_threads(),
        "models": [model.rstrip("/").rpartition("/")[2] for model in settings.models],
        **measure_engine([("ours", settings)], GRID),
        "imports": measure_imports(),
        "host": measure_host(settings, ROWS),
        "websocket": asyncio.run(_websocket(settings, replies)),
    }


async def _websocket(settings: Settings, replies: int) -> list[dict[str, Any]]:
    environment = {
        "VOICEWRIGHT_MODEL": " ".join(settings.models),
        "VOICEWRIGHT_DEVICE": settings.engine.device,
        "VOICEWRIGHT_DTYPE": settings.engine.dtype,
    }
    mode = Registry.read(settings.models).modes[0]
    async with opened([Arm("ours", {})], ["websocket"], environment) as lanes:
        return await suites.closed_loop(lanes, [mode], CLIENTS, replies, ROUNDS)


def bench(settings: Settings, replies: int, as_json: bool) -> None:
    """What `voicewright bench` does, which finds this function by its entry point (pyproject.toml)."""
    show(run(settings, replies), as_json)


def show(figures: dict[str, Any], as_json: bool) -> None:
    """Print JSON, or one table a suite."""
    if as_json:
        print(json.dumps(figures, indent=2))
    else:
        print(tables_of({name: rows for name, rows in figures.items() if name in TABLES}))


def main() -> int:
    """`python -m benchmarks.quick`, on the default settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--replies", type=int, default=10, help="counted replies at each number of clients, at least")
    arguments = parser.parse_args()
    bench(Settings.from_env(), arguments.replies, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
