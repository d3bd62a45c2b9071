"""Other implementations on the same checkpoint and card, one request at a time: a child process each.

`python -m benchmarks.peers faster|official|ours --model FOLDER` prints one JSON row. Milliseconds a frame are the slope
between a short and a long utterance of fixed lengths, so that prompts and start-up are in no figure and Code2Wav
is in each. The packages are found on PYTHONPATH; what of their needs the 12 Hz path never calls may be
missing.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Protocol

import torch

from benchmarks.cast import request_for
from benchmarks.prompts import sentences
from runtime.engine.engine import Engine
from runtime.request import AudioChunk, Broken, Finished, Mode, SpeechEvent
from runtime.settings import Settings

LENGTHS = (24, 72)  # frames
REPEATS = 3
FIRSTS = 10  # utterances of which the first sound is timed
NEVER_CALLED = {
    "librosa": ("librosa", "librosa.filters"),
    "sox": ("sox",),
    "einops": ("einops",),
    "onnxruntime": ("onnxruntime",),
    "torchaudio": ("torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi"),
}

Row = dict[str, Any]


class Peer(Protocol):
    """One implementation, loaded and warm."""

    def say(self, text: str, frames: int) -> None:
        """Speak to the end."""
        ...

    def first_sound(self, text: str) -> float | None:
        """Seconds from a text to its first sound; None where there is no stream."""
        ...

    def extra(self) -> Row:
        """What it says of itself."""
        ...


def measure(peer: Peer, lengths: tuple[int, int] = LENGTHS, repeats: int = REPEATS) -> Row:
    """Slope between the lengths, and what the long one takes as a whole."""
    texts = iter(sentences())
    spent: dict[int, list[float]] = {length: [] for length in lengths}
    peer.say(next(texts), lengths[0])
    for _ in range(repeats):
        for length in lengths:
            start = time.perf_counter()
            peer.say(next(texts), length)
            spent[length].append(time.perf_counter() - start)
    firsts = [1000 * first for _ in range(FIRSTS) if (first := peer.first_sound(next(texts))) is not None]
    short, long = (statistics.median(spent[length]) for length in lengths)
    return {
        "ms_a_frame": round(1000 * (long - short) / (lengths[1] - lengths[0]), 2),
        f"{lengths[1]}_frames_ms": round(1000 * long, 1),
        "first_sound_ms": round(statistics.median(firsts), 2) if firsts else None,
        **peer.extra(),
    }


class Ours:
    """The engine of this process with its threads, first chunk one frame."""

    def __init__(self, model: str, device: str) -> None:
        settings = Settings.from_env({"VOICEWRIGHT_MODEL": model, "VOICEWRIGHT_DEVICE": device})
        self._engine = Engine.open(settings)
        self._engine.start()

    def say(self, text: str, frames: int) -> None:
        self._say(text, frames)

    def first_sound(self, text: str) -> float | None:
        return self._say(text, 4)

    def _say(self, text: str, frames: int) -> float:
        """Speak to the end; seconds to the first sound."""
        ended, first, made, card = threading.Event(), 0.0, 0, self._engine.cards[0]

        def sink(event: SpeechEvent) -> None:
            nonlocal first, made
            if isinstance(event, AudioChunk):
                first = first or time.perf_counter()
                made += len(event.codes)
            elif isinstance(event, Finished | Broken):
                ended.set()

        start = time.perf_counter()
        self._engine.submit(request_for(card, Mode.CUSTOM_VOICE, text, frames, 1, is_live=False), sink)
        ended.wait()
        if made != frames:
            raise SystemExit(f"{made} frames instead of {frames}")
        return first - start

    def extra(self) -> Row:
        return {}


class Official:
    """The published classes, as qwen-tts-hf has them for transformers 5; no stream."""

    def __init__(self, model: str, device: str) -> None:
        from qwen_tts import Qwen3TTSModel

        mend_rope()
        kind = torch.float32 if device == "cpu" else torch.bfloat16
        self._model = Qwen3TTSModel.from_pretrained(model, device_map=device, dtype=kind, attn_implementation="sdpa")
        self._speaker = sorted(self._model.get_supported_speakers())[0]

    def say(self, text: str, frames: int) -> None:
        waves, rate = self._model.generate_custom_voice(
            text=text, speaker=self._speaker, language="english", max_new_tokens=frames + 1
        )
        check_length(len(waves[0]), rate, frames)

    def first_sound(self, text: str) -> float | None:
        return None

    def extra(self) -> Row:
        return {}


class Faster:
    """faster-qwen3-tts: a graph for the talker, one for the code predictor. Frames as it counts them itself, too."""

    def __init__(self, model: str, device: str) -> None:
        import qwen_tts  # noqa: F401  # what it registers must be there to be mended
        from faster_qwen3_tts import FasterQwen3TTS, generate

        mend_rope()
        self._model = FasterQwen3TTS.from_pretrained(model, device=device, dtype=torch.bfloat16)
        self._model.warmup()
        self._speaker = sorted(self._model.model.get_supported_speakers())[0]
        self._steps: list[float] = []
        generate.fast_generate = self._overhear(generate.fast_generate)

    def say(self, text: str, frames: int) -> None:
        waves, rate = self._model.generate_custom_voice(
            text=text, speaker=self._speaker, language="english", max_new_tokens=frames
        )
        check_length(len(waves[0]), rate, frames)

    def first_sound(self, text: str) -> float | None:
        start = time.perf_counter()
        stream = self._model.generate_custom_voice_streaming(
            text=text, speaker=self._speaker, language="english", max_new_tokens=4, chunk_size=1
        )
        next(stream)
        first = time.perf_counter() - start
        stream.close()
        return first

    def extra(self) -> Row:
        return {"own_ms_a_frame": round(statistics.median(self._steps), 2)}

    def _overhear(self, generate: Callable[..., Any]) -> Callable[..., Any]:
        def heard(*given: Any, **named: Any) -> Any:
            codes, timing = generate(*given, **named)
            self._steps.append(timing["ms_per_step"])
            return codes, timing

        return heard


PEERS: dict[str, Callable[[str, str], Peer]] = {"ours": Ours, "faster": Faster, "official": Official}


def check_length(samples: int, rate: int, frames: int) -> None:
    """Raises SystemExit where an utterance is not about as long as asked for: its time would mean nothing."""
    made = samples / rate * 12.5
    if abs(made - frames) > 1:
        raise SystemExit(f"{made:.1f} frames instead of {frames}")


async def in_a_child(name: str, model: str, device: str, environment: dict[str, str]) -> Row:
    """Measure one in a process of its own. A peer that cannot run gives a row that says why."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.peers", name, "--model", model, "--device", device),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    out, error = await process.communicate()
    if process.returncode:
        why = error.decode(errors="replace").strip().rpartition("\n")[2]
        return {"engine": name, "error": why[:300]}
    return json.loads(out.decode().strip().rpartition("\n")[2])


def stand_ins() -> None:
    """Modules that the official package imports and its 12 Hz path never calls, where they are not installed."""
    for package, names in NEVER_CALLED.items():
        if importlib.util.find_spec(package) is not None:
            continue
        for name in names:
            sys.modules[name] = _Absent(name)
            parent, _, last = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], last, sys.modules[name])


def mend_rope() -> None:
    """Let the rotary embedding that qwen-tts-hf registers find its base where transformers 5.17 keeps it."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    registered = ROPE_INIT_FUNCTIONS["default"]

    def default(config: Any, *given: Any, **named: Any) -> Any:
        if not hasattr(config, "rope_theta"):
            config.rope_theta = config.rope_parameters["rope_theta"]
        return registered(config, *given, **named)

    ROPE_INIT_FUNCTIONS["default"] = default


class _Absent(ModuleType):
    """Has every name; none of them can be used."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def missing(*_: object, **__: object) -> None:
            raise RuntimeError(f"{self.__name__} is not installed")

        return missing


def main() -> int:
    """One engine, one row of JSON as the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=list(PEERS))
    parser.add_argument("--model", required=True)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    if arguments.engine != "ours":
        stand_ins()
    began = time.perf_counter()
    peer = PEERS[arguments.engine](arguments.model, arguments.device)
    start_s = round(time.perf_counter() - began, 1)
    print(json.dumps({"engine": arguments.engine, **measure(peer), "start_s": start_s}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
