"""Measurement of the time until a server detects that a network connection is silent."""

from __future__ import annotations

import asyncio

import httpx

from tests.support.bad_network import BadNetwork
from tests.support.speech_client import Talk

QUERY_TIMEOUT_S = 0.02
SESSIONS = 'voicewright_sessions{dialect="voicewright"} '


async def noticed_s(url: str, network: BadNetwork, session: Talk, *, others: int = 0) -> float:
    """Return the seconds between the start of the silence and the end of the server's session.

    Args:
        url: HTTP URL of the runtime itself, because a studio does not relay the runtime's metrics.
        session: Session over the bad network that has not sent requests yet.
    """
    await session.send_text("Speak for a long time.")
    while not isinstance(await session.receive(), bytes):
        pass
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        network.fall_silent()
        clock = (
            asyncio.get_running_loop().time
        )  # The server's loop uses the same clock, which does not advance while the process is stopped.
        began = clock()
        while f"{SESSIONS}{others:.1f}\n" not in (await client.get("/metrics")).text:  # noqa: ASYNC110  a blocking server
            await asyncio.sleep(QUERY_TIMEOUT_S)
        return clock() - began
