"""Measurement of speech over a slow network, and of the detection of a lost network."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

from benchmarks.common.servers import BenchRuntime
from tests.support.bad_network import Link, bad_network
from tests.support.silence import detection_time_s
from tests.support.speech_client import talk

TIMES = 20
FAR = Link(delay_s=0.2, loss=0.01)
VOICE: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 60}
LONG = VOICE | {"max_frames": 4000}


async def slow_network(runtime: BenchRuntime, ping_s: float) -> str:
    """Measure responses over a slow and over a local network, and return a summary.

    Args:
        runtime: Runtime with the ping interval `ping_s`.
        ping_s: Ping interval in seconds.
    """
    port = int(runtime.url.rpartition(":")[2])
    near = await asyncio.gather(*(_heard(runtime.stream) for _ in range(TIMES)))
    async with bad_network(port, FAR) as network:
        far = await asyncio.gather(*(_heard(network.url) for _ in range(TIMES)))
    same = sum(pcm == near[0][1] for _, pcm in far)
    assert same == TIMES, f"{same} of {TIMES} replies were whole"
    near_ms, far_ms = (statistics.median(ms for ms, _ in heard) for heard in (near, far))
    silences_s = [await _noticed_s(runtime, port) for _ in range(3)]
    return (
        f"{FAR.delay_s * 1000:.0f} ms each way and {FAR.loss:.0%} loss: {same} of {TIMES} replies whole to the bit "
        f"({network.lost} segments came late), first sound of as many at once {far_ms:.0f} ms at the median "
        f"({near_ms:.0f} nearby); a cable pulled out is noticed after "
        f"{max(silences_s):.1f} s at most, with pings every {ping_s:.0f} s"
    )


async def _heard(url: str) -> tuple[float, bytes]:
    """Return the milliseconds from the text to the first audio, and the complete audio."""
    async with talk(url, **VOICE) as session:
        began = time.perf_counter()
        await session.send_text("The bread is warm.")
        while not isinstance(first := await session.receive(), bytes):
            pass
        ms = 1000 * (time.perf_counter() - began)
        return ms, first + (await session.receive_take()).pcm


async def _noticed_s(runtime: BenchRuntime, port: int) -> float:
    async with bad_network(port, Link()) as network, talk(network.url, **LONG) as session:
        noticed = await detection_time_s(runtime.url, network, session)
        network.reset()  # The reset ends the connection without waiting for the server's close frame.
        return noticed
