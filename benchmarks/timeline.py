"""Where the time to the first sound goes: `python -m benchmarks.timeline --model FOLDER`, one request after the other.

The engine runs with its threads; what each of them begins and ends on the way is written down beside the clock. The
reply with the median time to first audio is shown.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median
from typing import Any
from unittest.mock import patch

from runtime.engine.code2wav_scheduler import Code2WavScheduler
from runtime.engine.code2wav_streams import Code2WavStreams
from runtime.engine.core import EngineCore
from runtime.engine.engine import Engine
from runtime.engine.model_runner import LaunchedFrame, ModelRunner
from runtime.engine.parts import Parts
from runtime.knobs import override
from runtime.request import AudioChunk, Broken, Finished, SpeechEvent, SpeechRequest
from runtime.settings import Settings

TEXT = "The harbour was quiet."
WARM_UPS, FRAMES = 10, 12
STEPS: tuple[tuple[type, str], ...] = (
    (EngineCore, "_begin"),
    (Parts, "begin"),
    (ModelRunner, "prefill_chunks"),
    (ModelRunner, "first"),
    (LaunchedFrame, "result"),
    (ModelRunner, "step"),
    (Code2WavScheduler, "make"),
    (Code2WavStreams, "open"),
    (Code2WavStreams, "decode"),
)

Notes = list[tuple[str, float]]


def noted(call: Callable[..., Any], name: str, notes: Notes) -> Callable[..., Any]:
    """The same call, which writes down when it begins and ends."""

    def wrapped(*arguments: Any, **words: Any) -> Any:
        notes.append((f"{name} begins", time.perf_counter()))
        result = call(*arguments, **words)
        notes.append((f"{name} ends", time.perf_counter()))
        return result

    return wrapped


def spoken(engine: Engine, seed: int, notes: Notes) -> tuple[float, Notes]:
    """Milliseconds to the first sound of one reply, and what happened until then."""
    done, mode = threading.Event(), engine.cards[0].modes[0]

    def sink(event: SpeechEvent) -> None:
        if isinstance(event, AudioChunk):
            notes.append(("SOUND", time.perf_counter()))
        elif isinstance(event, Finished | Broken):
            done.set()

    notes.clear()
    began = time.perf_counter()
    engine.submit(SpeechRequest(text=TEXT, mode=mode, seed=seed, max_frames=FRAMES), sink)
    notes.append(("submit ends", time.perf_counter()))
    done.wait(60)
    until = next(index for index, (name, _) in enumerate(notes) if name == "SOUND")
    line = [(name, 1000 * (at - began)) for name, at in notes[: until + 1]]
    return line[-1][1], line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="", help="a folder; without one, the settings' own")
    parser.add_argument("--replies", type=int, default=40)
    parser.add_argument("--length", type=int, default=1024, help="positions of a slot")
    arguments = parser.parse_args()
    settings = Settings.from_env()
    models = (arguments.model,) if arguments.model else settings.models
    engine = Engine.open(
        Settings(models=models, engine=override(settings.engine, max_model_len=arguments.length)),
    )
    notes: Notes = []
    with ExitStack() as patches:
        for owner, name in STEPS:
            label = f"{owner.__name__}.{name.strip('_')}"
            patches.enter_context(patch.object(owner, name, noted(getattr(owner, name), label, notes)))
        engine.start()
        try:
            replies = [spoken(engine, seed, notes) for seed in range(WARM_UPS + arguments.replies)][WARM_UPS:]
        finally:
            engine.close()
    replies.sort(key=lambda reply: reply[0])
    print(f"first sound p50 {median(first for first, _ in replies):.2f} ms, slowest {replies[-1][0]:.2f} ms")
    for name, at in replies[len(replies) // 2][1]:
        print(f"{at:9.3f}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
