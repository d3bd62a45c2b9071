"""The running engine on a device: what many say together is what each says alone, and what a frame takes them.

python3 -m benchmarks.pipeline [--model PATH] [--device cuda] [--rows 1,8,32] [--frames 100] [--eager] [--alone FILE]

With ``--alone`` what each says alone is kept in a file, or read from there if it exists: graphs are compared to eager
frames so, and a card to a CPU, whose weights and sums have to be float32 then (``--dtype float32``).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.arguments import several
from runtime.engine.engine import Engine
from runtime.request import AudioChunk, Broken, Finished, Mode, Reference, SpeechEvent, SpeechRequest
from runtime.settings import EngineSettings, Settings

TEXT = "The harbour was quiet, and the lights of the last boat went out one by one. "
WAIT_S = 1800  # published sizes take a CPU long


class Said(NamedTuple):
    """Codes [F, Q] and samples of an utterance."""

    codes: NDArray[np.int64]
    samples: NDArray[np.int16]


@dataclass(slots=True)
class Listener:
    """What one request heard, and when."""

    asked: float = field(default_factory=time.perf_counter)
    first: float = 0.0
    chunks: list[AudioChunk] = field(default_factory=list)
    end: Finished | Broken | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def said(self) -> Said:
        codes = np.concatenate([chunk.codes for chunk in self.chunks]) if self.chunks else np.empty((0, 0), np.int64)
        return Said(codes, np.frombuffer(b"".join(chunk.pcm for chunk in self.chunks), np.int16))

    def __call__(self, event: SpeechEvent) -> None:
        if isinstance(event, AudioChunk):
            self.first = self.first or time.perf_counter()
            self.chunks.append(event)
        elif isinstance(event, Finished | Broken):
            self.end = event
            self.ended.set()


def ask(engine: Engine, serials: Sequence[int], frames: int, said: str = "") -> tuple[list[Listener], float]:
    """Serve a request a serial number, all at once; returns the seconds that took.

    Args:
        said: the text of each; empty: texts of several lengths.
    """
    mode = engine.cards[0].modes[0]
    reference = None
    if mode is Mode.BASE:
        noise = np.random.default_rng(0).standard_normal(48000).astype(np.float32) * 0.1
        reference = Reference(samples=noise, x_vector_only=True)
    began, listeners = time.perf_counter(), []
    for serial in serials:
        listeners.append(Listener())
        text = said or TEXT * (1 + serial % 3)
        request = SpeechRequest(text=text, mode=mode, seed=serial, max_frames=frames, reference=reference)
        engine.submit(request, listeners[-1])
    for listener in listeners:
        if not listener.ended.wait(WAIT_S):
            sys.exit(f"no end within {WAIT_S} s")
    return listeners, time.perf_counter() - began


def differ_from(said: Said, other: Said) -> int | None:
    """The first frame whose codes differ, or that only one of them has; None: there is none."""
    shared = min(len(said.codes), len(other.codes))
    apart = np.flatnonzero((said.codes[:shared] != other.codes[:shared]).any(axis=1))
    return int(apart[0]) if len(apart) else shared if len(said.codes) != len(other.codes) else None


def keep(path: Path, alone: Sequence[Said]) -> None:
    """Write what each says alone."""
    named = {f"{name}{number}": array for number, said in enumerate(alone) for name, array in said._asdict().items()}
    with path.open("wb") as file:  # under this very name: numpy adds an ending to others
        np.savez(file, allow_pickle=False, **named)


def kept(path: Path) -> list[Said]:
    """Read it."""
    with np.load(path) as arrays:
        count = len(arrays.files) // len(Said._fields)
        return [Said(*(arrays[f"{name}{number}"] for name in Said._fields)) for number in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--rows", type=several(int), default=(1, 8, 32))
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--alone", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    rows: tuple[int, ...] = arguments.rows
    device = EngineSettings(
        device=arguments.device, dtype=arguments.dtype, eager=arguments.eager, max_slots=max(rows), guard=False
    )
    settings = replace(Settings(), models=tuple(arguments.model or Settings().models), engine=device)
    began = time.perf_counter()
    engine = Engine.open(settings, lambda loaded, of, step: print(f"  {step}", file=sys.stderr))
    engine.start()
    print(f"{engine.device.name}: ready after {time.perf_counter() - began:.1f} s, {engine.load().slots} slots")
    try:
        if arguments.alone is not None and arguments.alone.exists():
            alone = kept(arguments.alone)
        else:
            alone = [ask(engine, [serial], arguments.frames)[0][0].said for serial in range(max(rows))]
            if arguments.alone is not None:
                keep(arguments.alone, alone)
        lines = [_line(engine, alone, count, arguments.frames) for count in rows]
    finally:
        engine.close()
    print("rows  failed  codes differ (first frame)  samples apart (most)  ms a frame  frames/s  TTFA p50 ms  p95 ms")
    print("\n".join(lines))


def _line(engine: Engine, alone: Sequence[Said], count: int, frames: int) -> str:
    if count > len(alone):
        sys.exit(f"{len(alone)} utterances are kept, and {count} rows asked for; leave the file out, or name another")
    listeners, took = ask(engine, range(count), frames)
    failed = sum(isinstance(listener.end, Broken) for listener in listeners)
    pairs = [(listener.said, other) for listener, other in zip(listeners, alone, strict=False)]
    first = [differ_from(said, other) for said, other in pairs]
    differ = [frame for frame in first if frame is not None]
    same = [pair for pair, frame in zip(pairs, first, strict=True) if frame is None and len(pair[0].samples)]
    apart = max((int(np.abs(said.samples - other.samples.astype(np.int64)).max()) for said, other in same), default=-1)
    waits = sorted(1000 * (listener.first - listener.asked) for listener in listeners if listener.first)
    lengths = [len(said.codes) for said, _ in pairs]
    p50, p95 = (statistics.median(waits), waits[int(0.95 * (len(waits) - 1))]) if waits else (0.0, 0.0)
    codes = f"{len(differ)} ({min(differ)})" if differ else "0"
    return (
        f"{count:4d}  {failed:6d}  {codes:>26}  {apart:20d}  {1000 * took / max(1, *lengths):10.2f}  "
        f"{sum(lengths) / took:8.0f}  {p50:11.1f}  {p95:6.1f}"
    )


if __name__ == "__main__":
    main()
