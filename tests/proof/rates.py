"""Measurement of the studio's rate limit: one visitor's load does not affect others (P5)."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import httpx

from runtime.shared.port.limits import ACCOUNT_HEADER
from tests.support.app import App, running_app
from tests.support.visiting import new_visitor

BODY = {"input": "Hello.", "response_format": "pcm", "max_frames": 5, "voice": "eric"}
PER_MINUTE = 20
_TIMEOUT_S = 300


def rates(model: Path) -> str:
    """Return a summary of two visitors that exceed the request rate.

    One visitor retries immediately under forged accounts. Whenever this visitor is refused, the other sends a request.
    """
    limit = str(PER_MINUTE)
    with running_app(
        ["--model", str(model)], VOICEWRIGHT_REQUESTS_PER_MINUTE=limit, VOICEWRIGHT_VISITORS="each"
    ) as app:
        return asyncio.run(asyncio.wait_for(_two_visitors(app), _TIMEOUT_S))


async def _two_visitors(app: App) -> str:
    statuses: Counter[int] = Counter()
    refused = asyncio.Semaphore(0)
    port = int(app.port)

    async def greedy() -> None:
        async with httpx.AsyncClient(headers=new_visitor(port), timeout=30, trust_env=False) as client:
            while True:
                number = statuses.total()
                invented = {ACCOUNT_HEADER: f"somebody {number}", "x-forwarded-for": f"192.0.2.{number % 256}"}
                reply = await client.post(f"{app.url}/v1/audio/speech", json=BODY, headers=invented)
                statuses[reply.status_code] += 1
                if reply.status_code == httpx.codes.TOO_MANY_REQUESTS:
                    assert int(reply.headers["retry-after"]) > 0
                    refused.release()
                    await asyncio.sleep(0.02)

    task = asyncio.create_task(greedy())
    served = 0  # Number of served requests of the other visitor.
    async with httpx.AsyncClient(headers=new_visitor(port), timeout=30, trust_env=False) as client:
        for _ in range(PER_MINUTE):
            await refused.acquire()
            served += (await client.post(f"{app.url}/v1/audio/speech", json=BODY)).status_code == httpx.codes.OK
    task.cancel()
    assert set(statuses) <= {httpx.codes.OK, httpx.codes.TOO_MANY_REQUESTS}, statuses
    return (
        f"{PER_MINUTE} requests a minute of each behind a studio: {served} of {PER_MINUTE} of a visitor served "
        f"beside one who asked {statuses.total()} times under invented accounts, of which {statuses[httpx.codes.OK]} "
        "were served"
    )
