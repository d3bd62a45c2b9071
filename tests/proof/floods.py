"""Measurement of the time to first audio while another client floods the server.

The ports of the runtime and of the studio are measured separately.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from benchmarks.common.servers import BenchRuntime
from tests.proof.attacker import ATTACKS
from tests.proof.clients import SHORT, quantile
from tests.proof.crowd import at_rest
from tests.support.app import running_app
from tests.support.speech_client import talk
from tests.support.thorough import ROOT
from tests.support.timeouts import TEST_TIMEOUT_S

_TURN = 20  # Number of measurements in each phase, without and with the flood.


@asynccontextmanager
async def _attacked(name: str, port: int) -> AsyncIterator[None]:
    """Run the flood `name` against a port in a separate process."""
    command = [sys.executable, "-m", "tests.proof.attacker", name, str(port)]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert await asyncio.wait_for(process.stdout.readline(), TEST_TIMEOUT_S) == b"begun\n"
        yield
        assert process.returncode is None, "the attacker has ended"
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()


async def floods(runtime: BenchRuntime, heard: int, attacks: tuple[str, ...] = tuple(ATTACKS)) -> str:
    """Measure a client's time to first audio with and without floods of another client.

    The result is a summary as text. The ports of the runtime and of a studio are measured, with `heard` requests for
    each kind of flood. Measurements with and without the flood alternate every few seconds, so that other load on the
    machine affects both.
    """
    with running_app(["--runtime-url", runtime.url]) as app:
        ports = {"runtime": int(runtime.url.rpartition(":")[2]), "studio": int(app.port)}
        pairs = {
            f"{name} ({where})": await _pair(runtime, name, port, heard)
            for where, port in ports.items()
            for name in attacks
        }
        assert app.process.poll() is None
    within = sum(quantile(beside, 0.99) <= 2 * quantile(alone, 0.99) for alone, beside in pairs.values())
    return (
        f"p99 (p50) in ms of a neighbour's first audio beside a flood / alone, {heard} each: "
        + "; ".join(f"{name} {_shown(beside)} / {_shown(alone)}" for name, (alone, beside) in pairs.items())
        + f"; {within} of {len(pairs)} p99 within twice that alone"
    )


def _shown(first_ms: list[float]) -> str:
    return f"{quantile(first_ms, 0.99):.0f} ({quantile(first_ms, 0.5):.0f})"


async def _pair(runtime: BenchRuntime, name: str, port: int, heard: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds to first audio of requests without and with the flood `name`."""
    url = f"ws://127.0.0.1:{port}/v1/audio/speech/stream"

    async def first_ms() -> float:
        async with talk(url, **SHORT) as session:
            began = time.perf_counter()
            await session.send_text("The bread is warm.")
            await session.first_audio()
            return 1000 * (time.perf_counter() - began)

    alone: list[float] = []
    beside: list[float] = []
    while len(beside) < heard:
        turn = min(_TURN, heard)
        await at_rest(runtime)
        alone += [await first_ms() for _ in range(turn)]
        async with _attacked(name, port):
            beside += [await first_ms() for _ in range(turn)]
    return alone, beside
