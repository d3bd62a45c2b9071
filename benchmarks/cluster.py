"""Measures what a cluster costs and brings: ``python -m benchmarks.cluster --replicas 2 --model …``, JSON on stdout.

Ways to a runtime are compared in turns, so that none has the quieter minute: direct, through HAProxy as the cluster
runs it, and, where it is asked for, through Ray Serve's own proxy to a runtime inside Serve's replica. Then the
cluster's audio seconds a second with one replica and with each number that was asked for (``--replicas 2,4``), under as
many listeners as there are slots. What is being measured is said on stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from benchmarks import serve_proxy
from benchmarks.prompts import sentences
from benchmarks.replicas import environment_of, runtimes
from voicewright import SAMPLE_RATE, Cancelled, VoicewrightError, connect

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

    async def until(self, replicas: int) -> None:
        """Wait until so many of its replicas take requests."""
        end = time.monotonic() + _START_S
        async with httpx.AsyncClient(trust_env=False) as client:
            while (await client.get(f"{self.url}/ready")).json().get("replicas") != replicas:
                if time.monotonic() > end:
                    raise RuntimeError(f"after {_START_S} s not all of {replicas} replicas take requests")
                await asyncio.sleep(0.1)

    async def devices(self) -> list[dict[str, Any]]:
        """What each replica runs on: its device, and which cards Ray lets it see (None: all that there are)."""
        seen = []
        async with httpx.AsyncClient(trust_env=False) as client:
            for port, process in sorted(runtimes(self.command).items()):
                served = (await client.get(f"http://127.0.0.1:{port}/v1/models")).json()["data"]
                names = sorted({str(model["device"]) for model in served})
                seen.append({"device": ", ".join(names), "cards": environment_of(process).get("CUDA_VISIBLE_DEVICES")})
        return seen

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


@dataclass(frozen=True, slots=True)
class Listeners:
    """Some of a load's listeners, in a process of their own. Moments are of the machine's clock, in seconds."""

    url: str
    numbers: range  # a listener's texts follow from its number
    counted_from: float
    until: float
    fields: Mapping[str, Any]  # of every request


async def _heard(listeners: Listeners) -> tuple[int, int]:
    """Samples that they hear between both moments, and replies that began before the end."""
    samples, replies, texts = 0, 0, TEXTS[:: len(TEXTS) // 97]

    async def listen(number: int) -> None:
        nonlocal samples, replies
        async with connect(listeners.url) as client:
            for text in itertools.islice(itertools.cycle(texts), 5 * number % len(texts), None):
                async with client.speak(text, seed=1, **listeners.fields) as speech:
                    replies += 1
                    async for chunk in speech:
                        now = time.monotonic()
                        if now >= listeners.until:
                            return
                        if now >= listeners.counted_from:
                            samples += len(chunk.pcm) // 2

    await asyncio.gather(*map(listen, listeners.numbers))
    return samples, replies


def _hear(listeners: Listeners) -> tuple[int, int]:
    return asyncio.run(_heard(listeners))


def seconds_of_audio(cluster: Running, listeners: int, told: argparse.Namespace) -> dict[str, float]:
    """Seconds of sound a second that so many listeners hear together, each calling again; and the runtimes' cores.

    The listeners are shared out to processes, so that their interpreter is not what is measured.
    """
    processes = min(told.processes, listeners)
    fields: dict[str, Any] = {} if told.max_frames is None else {"max_frames": told.max_frames}
    context = multiprocessing.get_context("spawn")
    started_all = context.Barrier(processes + 1)
    with ProcessPoolExecutor(processes, context, initializer=started_all.wait) as pool:
        for _ in range(processes):  # it starts a process for each call that finds none idle
            pool.submit(time.monotonic)
        started_all.wait(_START_S)
        counted_from = time.monotonic() + told.seconds / 4
        until = counted_from + told.seconds
        parts = [
            Listeners(cluster.url, range(first, listeners, processes), counted_from, until, fields)
            for first in range(processes)
        ]
        hearing = [pool.submit(_hear, part) for part in parts]
        time.sleep(max(0.0, counted_from - time.monotonic()))
        spent = cluster.spent_s()
        time.sleep(max(0.0, until - time.monotonic()))
        spent = cluster.spent_s() - spent
        heard = [part.result() for part in hearing]
    return {
        "listeners": listeners,
        "audio_s_per_s": round(sum(samples for samples, _ in heard) / SAMPLE_RATE / told.seconds, 3),
        "replies": sum(replies for _, replies in heard),
        "cores": round(spent / told.seconds, 2),
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


def say(words: str) -> None:
    """What is measured now, on stderr; `benchmarks.report` would load torch into every process of listeners."""
    print(words, file=sys.stderr, flush=True)


def _figures(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100)
    return {"p50": round(cuts[49], 3), "p95": round(cuts[94], 3), "n": len(values)}


def measure_ways(cluster: Running, told: argparse.Namespace) -> dict[str, Any]:
    """What each way to the one runtime of the cluster costs."""
    (direct,) = cluster.replica_urls()
    ways = {"direct": direct, "haproxy": cluster.url}
    with ExitStack() as stack:
        if told.serve:
            port = told.port + 1
            serving = ["benchmarks.serve_proxy", "--port", str(port), "--slots", str(told.slots)]
            stack.enter_context(started(serving, serve_proxy.READY))
            ways["serve"] = f"http://127.0.0.1:{port}"
        found: dict[str, Any] = {}
        say(f"a small answer by each way, {told.rounds * 5} times")
        found["hop_ms"] = asyncio.run(compare_http(ways, told.rounds * 5))
        say(f"first PCM by each way, {told.rounds} times")
        first = found["first_pcm_ms"] = asyncio.run(compare(ways, told.rounds))
        found["first_pcm_haproxy_more_ms"] = {
            cut: round(first["haproxy"][cut] - first["direct"][cut], 3) for cut in ("p50", "p95")
        }
        say(f"what a cancel does not take back, {_PAUSE_S:g} s for each way")
        found["not_taken_back_s"] = {way: asyncio.run(held_s(url)) for way, url in ways.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicas", default="2", help="how many, beside one: 2, or 2,4")
    parser.add_argument("--slots", type=int, default=4, help="of a replica")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30.0, help="of a load that are counted, behind a quarter more")
    parser.add_argument("--processes", type=int, default=1, help="of listeners: a card's sound is too much for one")
    parser.add_argument("--max-frames", type=int, help="of a reply, for weights that do not end by themselves")
    parser.add_argument("--port", type=int, default=18310)
    parser.add_argument("--serve", action="store_true", help="by Ray Serve's own proxy too, which no cluster uses")
    parser.add_argument("rest", nargs="*", help="behind --: for `voicewright cluster`, --model and --gpus for instance")
    told = parser.parse_args()
    arguments = ["--max-slots", str(told.slots), *told.rest]
    found: dict[str, Any] = {"arguments": vars(told)}
    rates: dict[int, float] = {}
    for replicas in (1, *map(int, told.replicas.split(","))):
        say(f"a cluster with {replicas} of {told.slots} slots")
        with running(told.port, replicas, arguments) as cluster:
            asyncio.run(cluster.until(replicas))
            devices = asyncio.run(cluster.devices())
            if replicas == 1:
                found |= measure_ways(cluster, told)
                say("one listener")
                found["one_listener"] = seconds_of_audio(cluster, 1, told)
            say(f"{replicas * told.slots} listeners")
            load = seconds_of_audio(cluster, replicas * told.slots, told)
            rates[replicas] = load["audio_s_per_s"]
            times = round(rates[replicas] / rates[1], 3)
            found[f"replicas_{replicas}"] = {"devices": devices, **load, "times_that_of_one": times}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
