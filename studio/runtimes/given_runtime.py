"""External runtime: a process that the studio uses but has not started.

Thread: event loop.
"""

from __future__ import annotations

import asyncio

import httpx

from runtime.shared.certificates import certificates
from studio.runtimes.child_process import HEALTH_TIMEOUT_S, START_POLL_INTERVAL_S, WATCH_INTERVAL_S, is_responding
from studio.runtimes.supervisor import RuntimeState, Status


class GivenRuntime:
    """External runtime, which the studio has not started and whose state it polls."""

    def __init__(self, url: str) -> None:
        self.url: str | None = url
        self.status = Status(RuntimeState.STARTING, "Looking for the runtime.")

    async def drain(self) -> None:
        """Do nothing, because an external runtime continues to run after the studio's shutdown."""

    async def run(self) -> int:
        """Request the state of the external runtime periodically, until this task is cancelled."""
        async with httpx.AsyncClient(verify=certificates(), trust_env=False, timeout=HEALTH_TIMEOUT_S) as client:
            while True:
                ready = await is_responding(client, f"{self.url}/ready")
                self.status = (
                    Status(RuntimeState.READY, "Ready.")
                    if ready
                    else Status(RuntimeState.AWAY, "The runtime does not respond. The studio keeps trying.")
                )
                await asyncio.sleep(WATCH_INTERVAL_S if ready else 10 * START_POLL_INTERVAL_S)
