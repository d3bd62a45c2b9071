"""The short benchmark: frames by batch, the host's own work, TTFA over the WebSocket (`voicewright bench`)."""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
from typing import Any

import torch

from benchmarks.engine import measure_engine
from benchmarks.host import measure_host
from benchmarks.sockets import measure_sockets
from runtime.settings import Settings

BATCHES = (1, 4, 16)
CLIENTS = (1, 4, 8)
ROWS = (1, 16, 64)  # of the host's own work


def run(settings: Settings, replies: int) -> dict[str, Any]:
    """All figures of one run; the settings' models, device and dtype are measured."""
    options = [option for model in settings.models for option in ("--model", model)]
    options += ["--device", settings.engine.device, "--dtype", settings.engine.dtype]
    return {
        "machine": {"cpu": platform.processor() or platform.machine(), "torch": torch.__version__},
        "threads": torch.get_num_threads(),
        "models": [model.rstrip("/").rpartition("/")[2] for model in settings.models],
        "engine": measure_engine(settings, BATCHES),
        "host": measure_host(settings, ROWS),
        "websocket": asyncio.run(measure_sockets(options, CLIENTS, replies)),
    }


def show(figures: dict[str, Any], as_json: bool) -> None:
    """Print JSON, or one table a suite."""
    if as_json:
        print(json.dumps(figures, indent=2))
        return
    for suite in ("engine", "host", "websocket"):
        rows = figures[suite]
        print(f"\n{suite}\n| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
        for row in rows:
            print("| " + " | ".join(str(value) for value in row.values()) + " |")


def main() -> int:
    """`python -m benchmarks.quick`, on the default settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--replies", type=int, default=10, help="counted replies of each client")
    arguments = parser.parse_args()
    show(run(Settings.from_env(), arguments.replies), arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
