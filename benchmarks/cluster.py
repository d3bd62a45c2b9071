"""Measures what a cluster costs and brings: ``python -m benchmarks.cluster --replicas 2 --model …``, JSON on stdout.

Ways to a runtime are compared in turns, so that none has the quieter minute: direct, through HAProxy as the cluster
runs it, and, where it is asked for, through Ray Serve's own proxy to a runtime inside Serve's replica. Then the
cluster's audio seconds a second with one replica and with as many as were asked for, under as many listeners as there
are slots.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from benchmarks import serve_proxy
from benchmarks.prompts import sentences
from benchmarks.replicas import runtimes
from voicewright import Cancelled, VoicewrightError, connect

READY = "Voicewright cluster ready"
_START_S = 600
_PAUSE_S = 12.0
TEXTS = sentences()


@contextmanager
def started(command: list[str], ready: str) -> Iterator[subprocess.Popen[str]]:
    """A process of Python's, from when it has said that it is ready until its end."""
    environment = {**os.environ, "VOICEWRIGHT_VOICES": tempfile.mkdtemp(prefix="voicewright-bench-")}
    process = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(ready):
                break
        else:
            raise RuntimeError(f"it ended before it was ready: {' '.join(command)}")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_START_S)


@dataclass(frozen=True, slots=True)
class Running:
    """A cluster that answers, and the process id of its command."""

    url: str
    command: int

    def replica_urls(self) -> list[str]:
        """Where its runtime processes listen."""
        return [f"http://127.0.0.1:{port}" for port in runtimes(self.command)]

    def spent_s(self) -> float:
        """Processor seconds that its runtime processes have spent, by Linux."""
        spent = 0
        for process in runtimes(self.command).values():
            with open(f"/proc/{process}/stat", encoding="ascii") as file:
                spent += sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
        return spent / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(port: int, replicas: int, arguments: list[str]) -> Iterator[Running]:
    """The cluster's command with so many replicas."""
    command = ["runtime.cli", "cluster", "--port", str(port), "--replicas", str(replicas), *arguments]
    with started(command, READY) as process:
        yield Running(f"http://127.0.0.1:{port}", process.pid)


async def held_s(url: str) -> float | None:
    """Seconds of sound that a cancel does not take back, for a listener that takes none of it: they are on the way.

    None: all of the text's was out of the runtime's hands before it was cancelled.
    """
    async with connect(url) as client, client.speak(" ".join(TEXTS[:12]), seed=1) as speech:
        await anext(aiter(speech))
        await asyncio.sleep(_PAUSE_S)
        await speech.cancel()
        end = await speech.ended()
    if isinstance(end, VoicewrightError):
        raise end
    return round(end.sent_ms / 1000, 2) if isinstance(end, Cancelled) else None


async def first_pcm_ms(url: str, text: str) -> float:
    """Milliseconds from the text to the first sound, on a socket that is open already."""
    async with connect(url) as client:
        start = time.perf_counter()
        async with client.speak(text, max_frames=4) as speech:
            async for _ in speech:
                return (time.perf_counter() - start) * 1000
    raise RuntimeError("no sound came")


async def seconds_of_audio(cluster: Running, listeners: int, each: int) -> dict[str, float]:
    """Seconds of sound a second that so many listeners hear together, ``each`` so many; and the runtimes' cores."""
    samples, texts = 0, TEXTS[:: len(TEXTS) // 97]

    async def listen(number: int) -> None:
        nonlocal samples
        async with connect(cluster.url) as client:
            for turn in range(each):
                async with client.speak(texts[(number * each + turn) % len(texts)], seed=1) as speech:
                    async for chunk in speech:
                        samples += len(chunk.pcm) // 2

    start, spent = time.perf_counter(), cluster.spent_s()
    await asyncio.gather(*map(listen, range(listeners)))
    took = time.perf_counter() - start
    return {
        "audio_s_per_s": round(samples / 24_000 / took, 3),
        "seconds": round(took, 1),
        "frames_of_a_text": round(samples / 1920 / listeners / each, 1),
        "cores": round((cluster.spent_s() - spent) / took, 2),
    }


async def compare(ways: dict[str, str], rounds: int) -> dict[str, dict[str, float]]:
    """Time to the first sound by each way, in turns."""
    took: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(rounds + 3):
        for way, url in ways.items():
            ms = await first_pcm_ms(url, TEXTS[turn % len(TEXTS)])
            if turn >= 3:  # warm
                took[way].append(ms)
    return {way: _figures(values) for way, values in took.items()}


async def compare_http(ways: dict[str, str], rounds: int) -> dict[str, dict[str, float]]:
    """Time of a small answer (GET /v1/audio/voices) by each way, in turns: what a hop costs, without an engine."""
    took: dict[str, list[float]] = {way: [] for way in ways}
    async with httpx.AsyncClient(trust_env=False) as client:
        for turn in range(rounds + 20):
            for way, url in ways.items():
                start = time.perf_counter()
                (await client.get(f"{url}/v1/audio/voices")).raise_for_status()
                if turn >= 20:
                    took[way].append((time.perf_counter() - start) * 1000)
    return {way: _figures(values) for way, values in took.items()}


def _figures(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100)
    return {"p50": round(cuts[49], 3), "p95": round(cuts[94], 3), "n": len(values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--slots", type=int, default=4, help="of a replica")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--texts", type=int, default=2, help="of each listener")
    parser.add_argument("--port", type=int, default=18310)
    parser.add_argument("--serve", action="store_true", help="by Ray Serve's own proxy too, which no cluster uses")
    parser.add_argument("rest", nargs="*", help="behind --: for `voicewright cluster`, --model and --gpus for instance")
    told = parser.parse_args()
    arguments = ["--max-slots", str(told.slots), *told.rest]
    found: dict[str, Any] = {"arguments": vars(told)}
    rates: dict[int, float] = {}
    for replicas in (1, told.replicas):
        with running(told.port, replicas, arguments) as cluster:
            if replicas == 1:
                (direct,) = cluster.replica_urls()
                ways = {"direct": direct, "haproxy": cluster.url}
                with ExitStack() as stack:
                    if told.serve:
                        port = told.port + 1
                        serving = ["benchmarks.serve_proxy", "--port", str(port), "--slots", str(told.slots)]
                        stack.enter_context(started(serving, serve_proxy.READY))
                        ways["serve"] = f"http://127.0.0.1:{port}"
                    found["hop_ms"] = asyncio.run(compare_http(ways, told.rounds * 5))
                    found["first_pcm_ms"] = asyncio.run(compare(ways, told.rounds))
                    found["not_taken_back_s"] = {way: asyncio.run(held_s(url)) for way, url in ways.items()}
                found["one_listener"] = asyncio.run(seconds_of_audio(cluster, 1, told.texts))
            load = asyncio.run(seconds_of_audio(cluster, replicas * told.slots, told.texts))
            found[f"replicas_{replicas}"] = load
            rates[replicas] = load["audio_s_per_s"]
    found["ratio"] = round(rates[told.replicas] / rates[1], 3)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
