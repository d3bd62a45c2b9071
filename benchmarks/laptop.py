"""Measures a checkpoint on a CPU as somebody at a laptop meets it: start, memory, first sound, frames, four at once.

python -m benchmarks.laptop MODEL [--weights published,int8,int4] [--beside PROGRAM] [--json FILE]

Each kind of weights has a process of its own, that starts warm: the files have been read before. With ``--beside``
the C implementation gabriele-mastrapasqua/qwen3-tts speaks the same checkpoint in the same run, in bfloat16 and int8;
PROGRAM is its binary, built elsewhere from its public source. The checkpoint's speech must not end by itself: those
with random weights (tests/support/checkpoints) do not. Processor time stands beside the clock's: on a machine
that does other work too it says what a frame costs, and the clock what a listener waited.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.arguments import parser_of, several
from benchmarks.child import row_of
from benchmarks.pipeline import ask
from benchmarks.report import show, tell
from runtime.engine.engine import Engine
from runtime.engine.loader import GATHERING
from runtime.settings import Settings

AS_PUBLISHED = "published"  # as this processor multiplies those best: bfloat16, or float16 beside float32 rows
OURS = (AS_PUBLISHED, "int8", "int4")
THEIRS = {AS_PUBLISHED: (), "int8": ("--int8",)}
TEXT = "Hi."  # what the first sound is measured on
SLOTS, POSITIONS = 4, 1024
SPEAK_S = 300.0  # that one program may take
TIMING = re.compile(r"Talker step: \d+ ms \(([\d.]+) ms/f\), Code Predictor: \d+ ms \(([\d.]+) ms/f\)")
PREFILL = re.compile(r"Prefill: (\d+) ms")
AUDIO = re.compile(r"Audio: [\d.]+s generated in ([\d.]+)s")


def settings_of(model: str, weights: str, slots: int = SLOTS) -> Settings:
    """What the environment says, for this checkpoint and this kind of weights: a dtype, int8, int4, or as published."""
    settings = Settings.from_env()
    dtype = weights if weights in ("float32", "bfloat16") else "auto"
    engine = replace(
        settings.engine,
        device="cpu",
        dtype=dtype,
        quantize="off" if dtype == weights or weights == AS_PUBLISHED else weights,
        max_slots=slots,
        max_model_len=POSITIONS,
        guard=False,
    )
    return replace(settings, models=(model,), engine=engine)


def measure_ours(model: str, weights: str, frames: int, born: float) -> dict[str, Any]:
    """One row, in this process, which began at ``born`` (seconds since the epoch)."""
    engine = Engine.open(settings_of(model, weights), lambda loaded, of, step: None)
    engine.start()
    started = time.time() - born
    try:
        ask(engine, [0], 2)
        await_gathered()
        first = []
        for serial in range(3):
            (listener,), _ = ask(engine, [serial], 2, TEXT)
            first.append(listener.first - listener.asked)
        few = frames // 3
        spent = [_spent(engine, [0], count) for count in (few, frames, few, frames)]
        clock, processor = (
            min(spent[1][which], spent[3][which]) - min(spent[0][which], spent[2][which]) for which in (0, 1)
        )
        listeners, wall = ask(engine, range(SLOTS), frames)
        made = sum(len(listener.said.samples) for listener in listeners)
    finally:
        engine.close()
    return {
        "who": "ours",
        "weights": weights,
        "frame_ms": round(1000 * clock / (frames - few), 1),
        "processor_ms": round(1000 * processor / (frames - few), 1),
        "first_ms": round(1000 * statistics.median(first)),
        "four_audio_s_per_s": round(made / 24000 / wall, 2),
        "start_s": round(started, 1),
        **memory_mib(),
    }


def await_gathered() -> None:
    """Until weights lie in huge pages: some seconds behind a start, with what nobody else wants of the processor."""
    for thread in threading.enumerate():
        if thread.name == GATHERING:
            thread.join()


def _spent(engine: Engine, serials: Sequence[int], frames: int) -> tuple[float, float]:
    """Seconds by the clock and of processor time that some requests take to their ends."""
    began, processor = time.perf_counter(), time.process_time()
    ask(engine, serials, frames)
    return time.perf_counter() - began, time.process_time() - processor


def memory_mib() -> dict[str, int]:
    """What this process holds by itself, what of files it has mapped, and the most of both that it ever had."""
    found = {}
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name in ("RssAnon", "RssFile", "VmHWM"):
            found[name] = int(rest.split()[0]) // 1024
    return {"own_mib": found["RssAnon"], "mapped_mib": found["RssFile"], "peak_mib": found["VmHWM"]}


def measure_theirs(program: Path, model: str, weights: str, frames: int, threads: int) -> dict[str, Any]:
    """One row of the C implementation, by what it says of itself: all that it took but for reading the prompt.

    Raises:
        RuntimeError: it did not say what it usually says.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [str(program), "-d", model, "--text", TEXT, "-o", f"{folder}/said.wav", "-j", str(threads)]
        command += ["--max-tokens", str(frames), "--seed", "1", *THEIRS[weights]]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads)}
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SPEAK_S, env=environment, check=True
        )
    said = done.stdout + done.stderr
    audio, prefill, timing = AUDIO.search(said), PREFILL.search(said), TIMING.search(said)
    if audio is None or prefill is None or timing is None:
        raise RuntimeError(f"{program} did not say how long it took: {said[-500:]}")
    return {
        "who": "C",
        "weights": weights,
        "frame_ms": round((1000 * float(audio[1]) - float(prefill[1])) / frames, 1),
        "talker_ms": float(timing[1]),
        "predictor_ms": float(timing[2]),
    }


def _in_process(model: str, weights: str, frames: int) -> dict[str, Any]:
    """A row of ours from a process of its own."""
    options = ["--frames", str(frames), "--only", weights, "--born", str(time.time())]
    return row_of("benchmarks.laptop", model, *options, limit_s=SPEAK_S)


def measure(
    model: str, weights: Sequence[str], beside: Path | None, frames: int, threads: int
) -> Iterator[dict[str, Any]]:
    """A row after the other; those of equal weights one behind the other."""
    for kind in weights:
        if beside is not None and kind in THEIRS:
            tell(f"C, {kind}")
            yield measure_theirs(beside, model, kind, frames, threads)
        tell(f"ours, {kind}")
        yield _in_process(model, kind, frames)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("model", help="a folder; python -m tests.support.checkpoints writes one of the published sizes")
    parser.add_argument(
        "--weights", type=several(str), default=OURS, help="of published, float32, bfloat16, int8, int4"
    )
    parser.add_argument("--beside", type=Path, metavar="PROGRAM", help="the binary of the C implementation")
    parser.add_argument("--frames", type=int, default=24, help="of the longer of two utterances")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of the C implementation")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    parser.add_argument("--born", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(measure_ours(arguments.model, arguments.only, arguments.frames, arguments.born)))
        return 0
    rows = []
    for row in measure(arguments.model, arguments.weights, arguments.beside, arguments.frames, arguments.threads):
        rows.append(row)
        tell(json.dumps(row))
    show({who: [row for row in rows if row["who"] == who] for who in ("C", "ours")}, arguments.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
