"""Time to first audio over the WebSocket of a real runtime process on loopback."""

from __future__ import annotations

import asyncio
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from runtime.client import SpeechRefused, connect

TEXT = "The harbour was quiet, and the lights of the last boat went out one by one."
FRAMES = 25  # of each reply, so that replies are equally long
WARM_UP = 2  # replies of each client that are not counted


@dataclass(frozen=True, slots=True)
class RuntimeProcess:
    """A runtime that answers."""

    url: str
    pid: int

    @property
    def stream(self) -> str:
        """The address of its WebSocket."""
        return self.url.replace("http", "ws", 1) + "/v1/audio/speech/stream"


@asynccontextmanager
async def runtime_process(
    arguments: list[str], environment: Mapping[str, str] | None = None
) -> AsyncIterator[RuntimeProcess]:
    """Start `voicewright runtime` on a free port; yields it once it is ready."""
    command = [sys.executable, "-m", "runtime.cli", "runtime", "--port", "0", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, env={**os.environ, "VOICEWRIGHT_HOST": "127.0.0.1", **(environment or {})}
    )
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        if " at http" not in line:
            raise SystemExit("the runtime did not start; its error is above")
        yield RuntimeProcess(line.rpartition(" at ")[2].strip(), process.pid)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def measure_sockets(arguments: list[str], clients: tuple[int, ...], replies: int) -> list[dict[str, Any]]:
    """TTFA (request sent to first sound received) for some numbers of closed-loop clients."""
    async with runtime_process(arguments) as runtime:
        return [await _closed_loop(runtime.url, count, replies) for count in clients]


async def _closed_loop(url: str, clients: int, replies: int) -> dict[str, Any]:
    start = time.perf_counter()
    figures = [
        figure for one in await asyncio.gather(*(_client(url, n, replies) for n in range(clients))) for figure in one
    ]
    wall = time.perf_counter() - start
    ttfa = sorted(figure["ttfa_ms"] for figure in figures)
    return {
        "clients": clients,
        "replies": len(figures),
        "ttfa_p50_ms": round(statistics.median(ttfa), 1),
        "ttfa_p95_ms": round(ttfa[math.ceil(0.95 * len(ttfa)) - 1], 1),
        "rtf_p50": round(statistics.median(figure["rtf"] for figure in figures), 3),
        "audio_s_per_s": round(clients * (replies + WARM_UP) * FRAMES * 0.08 / wall, 2),
    }


async def _client(url: str, number: int, replies: int) -> list[dict[str, float]]:
    """One client that speaks again as soon as its reply has ended."""
    figures = []
    async with connect(url, proxy=None) as client:
        mode = client.session["models"][0]["modes"][0]
        for turn in range(WARM_UP + replies):
            sent = time.perf_counter()
            speech = await client.speak(TEXT, task_type=mode, max_frames=FRAMES, seed=1000 * number + turn)
            try:
                first = None
                async for _ in speech:
                    first = first or time.perf_counter()
            except SpeechRefused as refusal:
                raise SystemExit(f"a reply failed: {refusal}") from None
            assert speech.done is not None
            if turn >= WARM_UP and first is not None and speech.done.stats.rtf is not None:
                figures.append({"ttfa_ms": 1000 * (first - sent), "rtf": speech.done.stats.rtf})
    return figures
