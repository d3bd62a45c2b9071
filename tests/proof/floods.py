"""Floods of one client against both ports, and what a neighbour hears meanwhile, in `make proof`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from benchmarks.sockets import BenchRuntime
from tests.proof.attacker import ATTACKS
from tests.proof.clients import SHORT, quantile, sounding
from tests.support.app import running_app
from tests.support.patience import PATIENCE_S
from tests.support.speech_client import talk
from tests.support.thorough import ROOT


@asynccontextmanager
async def _attacked(name: str, port: int) -> AsyncIterator[None]:
    """Attack from a process of its own, which takes no processor time that others want."""
    command = [sys.executable, "-m", "tests.proof.attacker", name, str(port)]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, preexec_fn=lambda: os.nice(19)
    )
    assert process.stdout is not None
    try:
        assert await asyncio.wait_for(process.stdout.readline(), PATIENCE_S) == b"begun\n"
        yield
        assert process.returncode is None, "the attacker has ended"
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()


async def floods(runtime: BenchRuntime, heard: int, attacks: tuple[str, ...] = tuple(ATTACKS)) -> str:
    """A neighbour's first audio alone and beside each flood, at the runtime's port and at a studio's before it."""
    with running_app(["--runtime-url", runtime.url]) as app:
        ports = {"runtime": int(runtime.url.rpartition(":")[2]), "studio": int(app.port)}
        told = [await _neighbour(name, where, port, heard) for where, port in ports.items() for name in attacks]
        assert app.process.poll() is None
    return f"p99 of a neighbour's first audio beside a flood and alone, {heard} each: " + "; ".join(told)


async def _neighbour(name: str, where: str, port: int, heard: int) -> str:
    url = f"ws://127.0.0.1:{port}/v1/audio/speech/stream"

    async def first_ms() -> float:
        async with talk(url, **SHORT) as session:
            began = time.perf_counter()
            await session.say("The bread is warm.")
            await sounding(session)
            return 1000 * (time.perf_counter() - began)

    alone = [await first_ms() for _ in range(heard)]
    async with _attacked(name, port):
        beside = [await first_ms() for _ in range(heard)]
    return f"{name} ({where}) {quantile(beside, 0.99):.0f} ms, {quantile(alone, 0.99):.0f}"
