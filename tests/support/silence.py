"""Measurement of the time after which a server detects a silent network connection.

A connection is silent if no data arrives and it is not closed.
"""

from __future__ import annotations

import asyncio

import httpx

from tests.support.bad_network import BadNetwork
from tests.support.speech_client import Talk

QUERY_TIMEOUT_S = 0.02
SESSIONS = 'voicewright_sessions{dialect="voicewright"} '


async def detection_time_s(url: str, network: BadNetwork, session: Talk, *, others: int = 0) -> float:
    """Measure the time in seconds until a server ends a session whose network is silent.

    Args:
        url: HTTP URL of the runtime itself, because the studio's port does not serve the runtime's metrics.
        network: Simulated network.
        session: Session over the simulated network, which has not sent a request yet.
        others: Number of other sessions on the server.
    """
    await session.send_text("Speak for a long time.")
    await session.first_audio()
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        network.fall_silent()
        # The server's loop uses the same clock, which does not advance while the process is stopped.
        clock = asyncio.get_running_loop().time
        began = clock()
        while f"{SESSIONS}{others:.1f}\n" not in (await client.get("/metrics")).text:  # noqa: ASYNC110  a blocking server
            await asyncio.sleep(QUERY_TIMEOUT_S)
        return clock() - began
