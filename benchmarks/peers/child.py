"""Measurement of one implementation: `python -m benchmarks.peers.child NAME`.

The program prints one row of JSON. It runs in the Python environment of the measured implementation, in which packages
of this repository may be missing. Therefore, imports are inside the classes.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common.texts import sentences

FRAMES_PER_S = 12.5
REPEATS = 3
TTFA_CALLS = 10
TTFA_FRAMES = 4
AT_ONCE = 4
PROGRAM_TIMEOUT_S = 300.0
PROGRAM_TIME = re.compile(r"(generated in|Total) (?P<time>[\d.]+) ?(?P<unit>m?s)")

Row = dict[str, Any]


class SpeechImplementation(ABC):
    """Interface to a speech implementation that has loaded a checkpoint."""

    @abstractmethod
    def speak(self, text: str, frames: int) -> float:
        """Generate the speech of a text with `frames` frames, and return the elapsed seconds."""

    def ttfa_s(self, text: str) -> float | None:
        """Return the time to first audio in seconds, or None if streaming is not supported."""
        return None

    def more(self, frames: int) -> Row:
        """Return additional table columns that only this implementation reports."""
        return {}


def measure(
    peer: SpeechImplementation, lengths: tuple[int, int], repeats: int = REPEATS, ttfa_calls: int = TTFA_CALLS
) -> Row:
    """Measure an implementation, and return a table row.

    The row has the wall-clock time and the CPU time per frame, the time to first audio (TTFA) and the memory. The time
    per frame is the difference in time between a short and a long utterance, divided by their difference in frames.

    Args:
        peer: Implementation to measure.
        lengths: Numbers of frames of the short and the long utterance.
        repeats: Number of measurements per length.
        ttfa_calls: Number of measurements of TTFA.
    """
    texts, (few, many) = iter(sentences()), lengths
    peer.speak(next(texts), few)
    clock: dict[int, list[float]] = {few: [], many: []}
    processor: dict[int, list[float]] = {few: [], many: []}
    for _ in range(repeats):
        for length in lengths:
            began = cpu_s()
            clock[length].append(peer.speak(next(texts), length))
            processor[length].append(cpu_s() - began)
    first = [1000 * seconds for _ in range(ttfa_calls) if (seconds := peer.ttfa_s(next(texts))) is not None]

    def slope_ms(spent: dict[int, list[float]]) -> float:
        return round(1000 * (statistics.median(spent[many]) - statistics.median(spent[few])) / (many - few), 2)

    return {
        "frame_ms": slope_ms(clock),
        "processor_ms": slope_ms(processor),
        f"{many}_frames_ms": round(1000 * statistics.median(clock[many]), 1),
        "ttfa_ms": round(statistics.median(first), 2) if first else None,
        **peer.more(many),
        **memory_mib(),
    }


def cpu_s() -> float:
    """Return the CPU time of this process and its ended child processes in seconds."""
    return sum(os.times()[:4])


def memory_mib() -> Row:
    """Return the memory of this process in MiB.

    The row has the anonymous memory, the memory of mapped files, and the peak of the total. Without /proc, it is empty.
    """
    status = Path("/proc/self/status")
    lines = status.read_text("ascii").splitlines() if status.exists() else []
    fields = dict(line.split(":", 1) for line in lines)
    names = {"own_mib": "RssAnon", "mapped_mib": "RssFile", "peak_mib": "VmHWM"}
    return {name: int(fields[field].split()[0]) // 1024 for name, field in names.items() if field in fields}


class VoicewrightEngine(SpeechImplementation):
    """Voicewright's engine in this process.

    Settings come from environment variables. The first chunk has one frame.
    """

    def __init__(self, model: str, device: str, program: str | None = None) -> None:
        import os
        import threading

        from runtime.engine.engine import Engine
        from runtime.engine.loading.loader import HUGE_PAGES_THREAD
        from runtime.settings import Settings

        shared = {"VOICEWRIGHT_MODEL": model, "VOICEWRIGHT_DEVICE": device, "VOICEWRIGHT_GUARD": "0"}
        self._engine = Engine.open(Settings.from_env({**os.environ, **shared}))
        self._engine.start()
        atexit.register(self._engine.close)  # The threads of the engine must end before the interpreter exits.
        for thread in threading.enumerate():
            # The engine starts this thread to move weights to huge pages. Its work would disturb the measurement.
            if thread.name == HUGE_PAGES_THREAD:
                thread.join()

    def speak(self, text: str, frames: int) -> float:
        return self._speak([text], frames)[1]

    def ttfa_s(self, text: str) -> float | None:
        return self._speak([text], TTFA_FRAMES)[0]

    def more(self, frames: int) -> Row:
        if self._engine.load().slots < AT_ONCE:
            return {}
        took = self._speak(sentences()[-AT_ONCE:], frames)[1]
        return {f"{AT_ONCE}_at_once_audio_s_per_s": round(AT_ONCE * frames / FRAMES_PER_S / took, 2)}

    def _speak(self, texts: tuple[str, ...] | list[str], frames: int) -> tuple[float, float]:
        """Return the seconds to the first audio of the first text, and to the end of all texts."""
        from benchmarks.common.listener import speak_all
        from benchmarks.common.voices import request_for

        card = self._engine.cards[0]
        requests = [request_for(card, card.modes[0], text, frames, seed) for seed, text in enumerate(texts)]
        listeners, took = speak_all(self._engine, requests)
        for listener in listeners:
            check_length(len(listener.result.codes) / FRAMES_PER_S, frames)
        return listeners[0].ttfa_ms / 1000, took


class OfficialPackage(SpeechImplementation):
    """Published package qwen-tts, which does not support streaming."""

    # Number of additional frames that the package reports, because it counts the end token as a frame.
    EXTRA_FRAMES = 1

    def __init__(self, model: str, device: str, program: str | None = None) -> None:
        import torch
        from qwen_tts import Qwen3TTSModel

        kind = torch.float32 if device == "cpu" else torch.bfloat16
        self._model = Qwen3TTSModel.from_pretrained(model, device_map=device, dtype=kind, attn_implementation="sdpa")
        self._speaker = sorted(self._model.get_supported_speakers())[0]

    def _options(self, text: str, frames: int) -> dict[str, Any]:
        return {"text": text, "speaker": self._speaker, "language": "english", "max_new_tokens": frames}

    def speak(self, text: str, frames: int) -> float:
        began = time.perf_counter()
        waves, rate = self._model.generate_custom_voice(**self._options(text, frames + self.EXTRA_FRAMES))
        took = time.perf_counter() - began
        check_length(len(waves[0]) / rate, frames)
        return took


class FasterPackage(OfficialPackage):
    """Package faster-qwen3-tts, which captures CUDA graphs of the talker and code predictor.

    The table row also has the frame time that the package reports.
    """

    EXTRA_FRAMES = 0

    def __init__(self, model: str, device: str, program: str | None = None) -> None:
        import torch
        from faster_qwen3_tts import FasterQwen3TTS, generate

        self._model = FasterQwen3TTS.from_pretrained(model, device=device, dtype=torch.bfloat16)
        self._model.warmup()
        self._speaker = sorted(self._model.model.get_supported_speakers())[0]
        self._steps: list[float] = []
        own_generate = generate.fast_generate

        def recording(*args: Any, **kwargs: Any) -> Any:
            codes, timing = own_generate(*args, **kwargs)
            self._steps.append(timing["ms_per_step"])
            return codes, timing

        generate.fast_generate = recording

    def ttfa_s(self, text: str) -> float | None:
        began = time.perf_counter()
        stream = self._model.generate_custom_voice_streaming(**self._options(text, TTFA_FRAMES), chunk_size=1)
        next(stream)
        took = time.perf_counter() - began
        stream.close()
        return took

    def more(self, frames: int) -> Row:
        return {"own_frame_ms": round(statistics.median(self._steps), 2)}


class ExternalProgram(SpeechImplementation):
    """External program that is started for each text and prints its generation time.

    It does not stream audio. `{model}`, `{text}`, `{frames}` and `{wav}` in its command are replaced by values. If the
    command has no `{text}`, the program reads the text from its standard input.
    """

    def __init__(self, model: str, device: str, program: str | None = None) -> None:
        if program is None:
            raise SystemExit("--program is needed")
        self._command, self._model = shlex.split(program), model

    def speak(self, text: str, frames: int) -> float:
        """Run the program, and return the time that it reports in seconds.

        Raises:
            SystemExit: The program did not report its time.
        """
        with tempfile.TemporaryDirectory() as folder:
            values = {"model": self._model, "text": text, "frames": frames, "wav": f"{folder}/said.wav"}
            command = [part.format(**values) for part in self._command]
            done = subprocess.run(
                command, input=text, capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S, check=True
            )
        output = done.stdout + done.stderr
        if (took := PROGRAM_TIME.search(output)) is None:
            raise SystemExit(f"{command[0]} did not report its time: {output[-200:]}")
        return float(took["time"]) / (1000 if took["unit"] == "ms" else 1)

    def more(self, frames: int) -> Row:
        import resource

        return {"program_peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024}


PEERS: dict[str, Callable[[str, str, str | None], SpeechImplementation]] = {
    "ours": VoicewrightEngine,
    "official": OfficialPackage,
    "faster": FasterPackage,
}


def check_length(seconds: float, frames: int) -> None:
    """Raise SystemExit if an utterance does not have the requested number of frames.

    The measured time of such an utterance would be meaningless.
    """
    frame_count = seconds * FRAMES_PER_S
    if abs(frame_count - frames) > 1:
        raise SystemExit(f"{frame_count:.1f} frames instead of {frames}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer")
    parser.add_argument("--model", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--program")
    parser.add_argument("--lengths", required=True)
    arguments = parser.parse_args()
    few, many = map(int, arguments.lengths.split(","))
    began = time.perf_counter()
    peer = PEERS.get(arguments.peer, ExternalProgram)(arguments.model, arguments.device, arguments.program)
    start_s = round(time.perf_counter() - began, 1)
    print(json.dumps({**measure(peer, (few, many)), "start_s": start_s}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
