"""Comparison of the time to first audio with four concurrent clients and with one.

The pull request 3322 of vLLM-Omni requires that the ratio of the two medians is at most four. Measured ratios are at
most 1.3, so the limit leaves a margin for a busy machine.
"""

from __future__ import annotations

import asyncio
import statistics
import time

from runtime.settings import DEMO_CHECKPOINT, EngineSettings
from tests.support.runtime_server import RunningServer, running_server
from tests.support.speech_client import talk

TEXT = "The kettle has just boiled, and nobody is at home."
CALLS = 4  # Number of calls of each client.
MAX_RATIO = 4.0  # Maximum ratio of the median with four clients to the median with one client.


async def _first_sound_ms(server: RunningServer, seed: int) -> float:
    """Return the milliseconds between sending the text and the first audio message."""
    async with talk(server.socket, task_type="custom_voice", seed=seed, max_frames=25) as client:
        began = time.perf_counter()
        await client.send_text(TEXT)
        while not isinstance(await client.receive(), bytes):
            pass
        waited = 1000 * (time.perf_counter() - began)
        await client.receive_take()
        return waited


async def _medians(server: RunningServer) -> tuple[float, float]:
    """Return the median times to first audio (ms) of one and of four concurrent clients."""
    await _first_sound_ms(server, 0)
    alone: list[float] = []
    together: list[float] = []
    for call in range(CALLS):
        alone.append(await _first_sound_ms(server, call))
        together += await asyncio.gather(*(_first_sound_ms(server, 10 * call + client) for client in range(4)))
    return statistics.median(alone), statistics.median(together)


def medians_on(device: str) -> tuple[float, float]:
    """Start a server with the embedded voice on `device`, and measure times to first audio.

    Returns:
        Median times in milliseconds with one client and with four concurrent clients.
    """
    with running_server(DEMO_CHECKPOINT, engine=EngineSettings(device=device, max_slots=4)) as server:
        return asyncio.run(_medians(server))
