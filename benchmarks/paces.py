"""Compares the pace that the probe tells before a checkpoint is loaded with the one that the engine then has.

python -m benchmarks.paces MODEL [--weights published,int8,int4] [--rounds 2] [--frames 60] [--json FILE]

Each is measured in a process of its own, in turns. The engine's is the margin between a short utterance and a longer
one, sound included, behind the gathering of its weights in huge pages. As for `benchmarks.laptop`, the checkpoint's
speech must not end by itself.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.arguments import parser_of, several
from benchmarks.child import row_of
from benchmarks.laptop import OURS, await_gathered, settings_of
from benchmarks.pipeline import ask
from benchmarks.report import show, tell
from runtime.device import open_device
from runtime.device.quantized import Quantization
from runtime.engine.engine import Engine
from runtime.engine.frame_shape import FrameShape
from runtime.engine.probe import Probe
from runtime.engine.weight_bits import weights_of
from runtime.model.checkpoint import resolve
from runtime.model.config_files import read_model_config
from runtime.published import FRAME_S

PARTS = ("probe", "run")
LIMIT_S = 300.0  # that one process may take
SLOTS = 4


def probe(model: str, weights: str) -> dict[str, Any]:
    """What the probe tells. Times in ms."""
    settings = settings_of(model, weights).engine
    device, shape = open_device("cpu"), FrameShape.of(read_model_config(resolve(model)))
    quantization = None if settings.quantize == "off" else Quantization(settings.quantize)
    kind = weights_of(settings.dtype, device, shape, quantization)
    measured = Probe(device, settings.threads, settings.sound_dtype)
    began = time.perf_counter()
    rtf = measured.rtf(shape, kind, FRAME_S)
    took, slower = time.perf_counter() - began, measured.slower(shape, kind)
    return {
        "rtf": rtf,
        "frame_ms": round(1000 * measured.frame_s(shape, kind), 1),
        "sound_ms": round(1000 * measured.sound_s(kind), 1),
        "slower": None if math.isinf(slower) else round(slower, 2),  # where frames and sound share cores, one waits
        "now": measured.rtf_now(shape, kind, FRAME_S),
        "took_s": round(took, 2),
    }


def run(model: str, weights: str, frames: int) -> dict[str, Any]:
    """What the engine does."""
    engine = Engine.open(settings_of(model, weights, SLOTS), lambda loaded, of, step: None)
    engine.start()
    try:
        ask(engine, [0], 2)
        await_gathered()
        few = frames // 4
        spent = {count: min(_spent(engine, count) for _ in range(2)) for count in (few, frames)}
    finally:
        engine.close()
    frame = (spent[frames] - spent[few]) / (frames - few)
    return {"rtf": round(frame / FRAME_S, 3), "with_sound_ms": round(1000 * frame, 1)}


def _spent(engine: Engine, frames: int) -> float:
    """Seconds that an utterance takes to its end."""
    began = time.perf_counter()
    ask(engine, [0], frames)
    return time.perf_counter() - began


def _in_process(part: str, model: str, weights: str, frames: int) -> dict[str, Any]:
    options = ["--only", part, "--weights", weights, "--frames", str(frames)]
    return row_of("benchmarks.paces", model, *options, limit_s=LIMIT_S)


def measure(model: str, weights: Sequence[str], rounds: int, frames: int) -> Iterator[dict[str, Any]]:
    """A row a round and kind of weights."""
    for turn in range(rounds):
        for kind in weights:
            order = PARTS if turn % 2 == 0 else PARTS[::-1]
            found = {part: _in_process(part, model, kind, frames) for part in order}
            told, had = found["probe"].pop("rtf"), found["run"].pop("rtf")
            row = {"weights": kind, "probe": told, "run": had, "probe/run": round(told / had, 2)}
            yield row | found["probe"] | found["run"]


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("model", help="a folder; python -m benchmarks.synthetic writes one of the published sizes")
    parser.add_argument(
        "--weights", type=several(str), default=OURS, help="of published, float32, bfloat16, int8, int4"
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--frames", type=int, default=60, help="of the longer of two utterances")
    parser.add_argument("--only", choices=PARTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        work = (arguments.model, arguments.weights[0])
        print(json.dumps(probe(*work) if arguments.only == "probe" else run(*work, arguments.frames)))
        return 0
    rows = []
    for row in measure(arguments.model, arguments.weights, arguments.rounds, arguments.frames):
        rows.append(row)
        tell(json.dumps(row))
    show({"paces": rows}, arguments.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
