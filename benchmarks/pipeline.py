"""The running engine on a device: what many say together is what each says alone, and what a frame takes them.

python3 -m benchmarks.pipeline [--model PATH] [--device cuda] [--rows 1,8,32] [--frames 100] [--eager]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from runtime.engine.engine import Engine
from runtime.request import AudioChunk, Broken, Finished, Mode, Reference, SpeechEvent, SpeechRequest
from runtime.settings import EngineSettings, Settings

TEXT = "The harbour was quiet, and the lights of the last boat went out one by one. "
WAIT_S = 300


@dataclass(slots=True)
class Listener:
    """What one request heard, and when."""

    asked: float = field(default_factory=time.perf_counter)
    first: float = 0.0
    chunks: list[AudioChunk] = field(default_factory=list)
    end: Finished | Broken | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def __call__(self, event: SpeechEvent) -> None:
        if isinstance(event, AudioChunk):
            self.first = self.first or time.perf_counter()
            self.chunks.append(event)
        elif isinstance(event, Finished | Broken):
            self.end = event
            self.ended.set()

    @property
    def codes(self) -> NDArray[np.int64]:
        return np.concatenate([chunk.codes for chunk in self.chunks]) if self.chunks else np.empty((0, 0), np.int64)

    @property
    def samples(self) -> NDArray[np.int64]:
        return np.frombuffer(b"".join(chunk.pcm for chunk in self.chunks), np.int16).astype(np.int64)


def ask(engine: Engine, serials: Sequence[int], frames: int) -> tuple[list[Listener], float]:
    """Serve a request a serial number, all at once; returns the seconds that took."""
    mode = engine.cards[0].modes[0]
    reference = None
    if mode is Mode.BASE:
        noise = np.random.default_rng(0).standard_normal(48000).astype(np.float32) * 0.1
        reference = Reference(samples=noise, x_vector_only=True)
    began, listeners = time.perf_counter(), []
    for serial in serials:
        listeners.append(Listener())
        text = TEXT * (1 + serial % 3)
        request = SpeechRequest(text=text, mode=mode, seed=serial, max_frames=frames, reference=reference)
        engine.submit(request, listeners[-1])
    for listener in listeners:
        if not listener.ended.wait(WAIT_S):
            sys.exit(f"no end within {WAIT_S} s")
    return listeners, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", action="append")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rows", default="1,8,32")
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--eager", action="store_true")
    arguments = parser.parse_args()
    rows = [int(word) for word in arguments.rows.split(",")]
    device = EngineSettings(device=arguments.device, eager=arguments.eager, max_slots=max(rows), guard=False)
    settings = replace(Settings(), models=tuple(arguments.model or Settings().models), engine=device)
    began = time.perf_counter()
    engine = Engine.open(settings, lambda loaded, of, step: print(f"  {step}", file=sys.stderr))
    engine.start()
    print(f"{engine.device.name}: ready after {time.perf_counter() - began:.1f} s, {engine.load().slots} slots")
    try:
        alone = [ask(engine, [serial], arguments.frames)[0][0] for serial in range(max(rows))]
        lines = [_line(engine, alone, count, arguments.frames) for count in rows]
    finally:
        engine.close()
    print("rows  failed  codes differ  samples apart (most)  ms a frame  frames/s  TTFA p50 ms  p95 ms")
    print("\n".join(lines))


def _line(engine: Engine, alone: list[Listener], count: int, frames: int) -> str:
    listeners, took = ask(engine, range(count), frames)
    failed = sum(isinstance(one.end, Broken) for one in listeners)
    pairs = list(zip(listeners, alone, strict=False))
    differ = sum(not np.array_equal(one.codes, other.codes) for one, other in pairs)
    same = [(one, other) for one, other in pairs if np.array_equal(one.codes, other.codes) and one.chunks]
    apart = max((int(np.abs(one.samples - other.samples).max()) for one, other in same), default=-1)
    waits = sorted(1000 * (one.first - one.asked) for one in listeners if one.first)
    made = sum(len(one.codes) for one in listeners)
    longest = max(len(one.codes) for one in listeners)
    p50, p95 = (statistics.median(waits), waits[int(0.95 * (len(waits) - 1))]) if waits else (0.0, 0.0)
    return (
        f"{count:4d}  {failed:6d}  {differ:12d}  {apart:20d}  {1000 * took / max(1, longest):10.2f}  "
        f"{made / took:8.0f}  {p50:11.1f}  {p95:6.1f}"
    )


if __name__ == "__main__":
    main()
