"""Tests for the studio's connections to the runtime, which close with their request."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx

from studio.relay.upstream import Upstream, connections_closed
from tests.support.timeouts import becomes

REQUESTS = 400
AT_ONCE = 150  # Number of concurrent connections, which exceeds the default pools of httpx (100) and httpcore (10).


Hold = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def client_of(hold: Hold) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """Yield an HTTP client, and the URL of a server that calls `hold` for each connection."""
    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server, httpx.AsyncClient(transport=Upstream([]), timeout=None) as client:
        yield client, url


async def test_cancelled_request_leaks_no_connection() -> None:
    dice = random.Random(1)

    connected, ever = 0, 0

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connected, ever
        connected, ever = connected + 1, ever + 1
        try:
            while await reader.read(65536):  # The server never responds, as if the request waited for a slot.
                pass
        except ConnectionResetError:
            pass
        finally:
            connected -= 1
            writer.close()

    async with client_of(hold) as (client, url):

        async def ask() -> None:
            with connections_closed():
                await client.send(httpx.Request("POST", url, content=b"{}"), stream=True)

        async def give_up() -> None:
            asking = asyncio.create_task(ask())
            for _ in range(dice.randrange(40)):
                await asyncio.sleep(0)
            await asyncio.sleep(dice.random() * 0.004 * dice.randrange(2))
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

        for _ in range(REQUESTS // 10):
            await asyncio.gather(*(give_up() for _ in range(10)))
        await becomes(lambda: not connected)
        left, ever = connected, ever
    assert ever > REQUESTS / 4
    assert left == 0


async def test_number_of_upstream_connections_is_unlimited() -> None:
    arrived, left = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.release()
        await reader.read()
        writer.close()
        left.release()

    async with client_of(hold) as (client, url):

        async def ask() -> None:
            with connections_closed():
                await client.get(url)

        asking = [asyncio.create_task(ask()) for _ in range(AT_ONCE)]
        async with asyncio.timeout(60):
            for _ in asking:
                await arrived.acquire()  # All requests have arrived, and the server has not responded to any request.
            for each in asking:
                each.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            for _ in asking:
                await left.acquire()
