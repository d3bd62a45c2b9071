"""Check of the Ascend path on the hardware: parity with the CPU, and times of the engine's parts.

    .venv/bin/python -m tools.ascend_check --model Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice --json ascend.json

It prints a column of the table in docs/npu.md, as far as one process can measure it, and writes the same as JSON. The
rows under load are `python -m benchmarks.serve --concurrency 1,8,32`'s.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.metrics import percentiles
from benchmarks.common.report import card
from benchmarks.engine.tables import Grid, measure_parts, open_parts
from runtime.engine.engine import Engine
from runtime.engine.graphs import Work
from runtime.errors import SetUpError
from runtime.request import AudioChunk, Mode, Sampling, SpeechRequest
from runtime.settings import EngineSettings, Settings

Codes = NDArray[np.int64]
Row = dict[str, Any]

TEXTS = {
    "English": "The harbour was quiet, and the lights went out one by one.",
    "Chinese": "港口很安静，灯一盏一盏地熄灭了。",
}
FIRSTS = 20  # requests whose first sound is timed


def opened(model: str, device: str, dtype: str, slots: int, *, eager: bool = False) -> Engine:
    engine = EngineSettings(device=device, dtype=dtype, max_slots=slots, eager=eager)
    return Engine.open(Settings(models=(model,), engine=engine))


def asked(engine: Engine, text: str, frames: int, *, greedy: bool, seed: int = 1) -> SpeechRequest:
    """A request that the first checkpoint serves without a recording."""
    modes = [mode for mode in engine.cards[0].modes if mode is not Mode.BASE]
    if not modes:
        raise SystemExit("the check needs a CustomVoice or a VoiceDesign checkpoint: a Base one wants a recording")
    request = SpeechRequest(text=text, mode=modes[0], sampling=Sampling(greedy=greedy), max_frames=frames, seed=seed)
    if modes[0] is Mode.VOICE_DESIGN:
        return replace(request, instruct="A calm voice.")
    return replace(request, voice=engine.cards[0].speakers[0])


def codes_of(engine: Engine, request: SpeechRequest) -> Codes:
    """Shapes: result [frames, Q]."""
    chunks = [event.codes for event in engine.speak(request) if isinstance(event, AudioChunk)]
    return np.concatenate(chunks) if chunks else np.zeros((0, 0), np.int64)


def equal_frames(ours: Codes, theirs: Codes) -> int:
    """Frames before the first that differs."""
    count = min(len(ours), len(theirs))
    differs = np.flatnonzero((ours[:count] != theirs[:count]).any(axis=1)) if count else np.zeros(0)
    return int(differs[0]) if len(differs) else count


def parity(model: str, frames: int) -> Row:
    """Frames equal to the CPU's in float32, of how many, with graphs and without, greedy and drawn."""
    rows: Row = {}
    truth: dict[tuple[str, bool], Codes] = {}
    for name, device, eager in (("cpu", "cpu", False), ("graphs", "npu", False), ("eager", "npu", True)):
        engine = opened(model, device, "float32", 1, eager=eager)
        for language, text in TEXTS.items():
            for greedy in (True, False):
                made = codes_of(engine, asked(engine, text, frames, greedy=greedy))
                if device == "cpu":
                    truth[language, greedy] = made
                    continue
                expected = truth[language, greedy]
                way = f"{language}, {'greedy' if greedy else 'drawn'}, {name}"
                rows[way] = {"equal": equal_frames(made, expected), "of": len(expected), "made": len(made)}
        engine.close()
    return rows


def first_sound(engine: Engine, frames: int, count: int = FIRSTS) -> Row:
    """Milliseconds from a request to its first samples, one after the other, in process."""
    spent = []
    for seed in range(count):
        began = time.perf_counter()
        events = engine.speak(asked(engine, TEXTS["English"], frames, greedy=False, seed=seed))
        next(event for event in events if isinstance(event, AudioChunk) and event.pcm)
        spent.append(1000 * (time.perf_counter() - began))
        events.close()  # type: ignore[attr-defined]
    return percentiles("ttfa", spent, 50, 95, digits=1)


def versions() -> Row:
    """Return the relevant versions of the installation."""
    found: Row = {"card": card(), "cann": os.environ.get("ASCEND_TOOLKIT_HOME", "unknown")}
    for name in ("torch", "torch-npu"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


def check(model: str, frames: int, grid: Grid, *, eager: bool = False) -> Row:
    """Everything, with what the checkpoint computes in by default.

    Raises:
        SetUpError: the device or the checkpoint cannot be used.
    """
    equal = parity(model, frames)
    settings = Settings(models=(model,), engine=EngineSettings(device="npu", eager=eager))
    tables = measure_parts([("npu", open_parts(settings, grid))], grid)
    engine = opened(model, "npu", "auto", max(grid.batches), eager=eager)
    graphs = engine.registry.cores[0].runner.graphs
    report: Row = {
        "versions": versions(),
        "parity": equal,
        **{name: tables[name] for name in ("frames", "predictor", "prefill", "code2wav", "start")},
        "first_sound": first_sound(engine, frames),
        "graphs": {work.value: len(graphs.of(work)) for work in Work if graphs.of(work)},
    }
    engine.close()
    return report


def table(report: Row) -> str:
    """Lines for docs/npu.md's table."""

    def figures(rows: Sequence[Row], key: str) -> str:
        return " / ".join(str(row[key]) for row in rows)

    equal = report["parity"].values()
    first = report["first_sound"]
    lines = {
        "parity with the CPU in float32, frames": f"{sum(r['equal'] for r in equal)} of {sum(r['of'] for r in equal)}",
        f"frame, batch {figures(report['frames'], 'batch')}, ms": figures(report["frames"], "frame_ms"),
        f"code predictor, batch {figures(report['predictor'], 'batch')}, ms": figures(
            report["predictor"], "predictor_ms"
        ),
        f"prefill {figures(report['prefill'], 'positions')} positions, ms": figures(report["prefill"], "prefill_ms"),
        f"Code2Wav, {figures(report['code2wav'], 'frames')} frames of {figures(report['code2wav'], 'batch')} streams, "
        "ms": figures(report["code2wav"], "code2wav_ms"),
        "first PCM, idle, p50 / p95, ms": f"{first['ttfa_p50_ms']} / {first['ttfa_p95_ms']}",
        "graphs captured; start-up, s": f"{sum(report['graphs'].values())}; {figures(report['start'], 'seconds')}",
        "versions": ", ".join(f"{name} {version}" for name, version in report["versions"].items()),
    }
    return "\n".join(f"| {name} | {value} |" for name, value in lines.items())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", required=True, help="folder or Hub id of a CustomVoice or VoiceDesign checkpoint")
    parser.add_argument("--json", type=Path, required=True, help="where the figures are written")
    parser.add_argument("--frames", type=int, default=200, help="frames of each utterance that is compared")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--counted", type=int, default=30, help="runs of each measurement")
    parser.add_argument("--eager", action="store_true", help="measure without graphs")
    given = parser.parse_args(arguments)
    grid = Grid(
        batches=tuple(given.batches),
        contexts=(64,),
        prompts=(128,),
        chunks=((12, 1), (12, 8)),
        counted=given.counted,
    )
    try:
        report = check(given.model, given.frames, grid, eager=given.eager)
    except SetUpError as error:
        raise SystemExit(f"{error.code}: {error}") from error
    given.json.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(table(report))


if __name__ == "__main__":
    main()
