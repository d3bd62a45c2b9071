"""Sends responses whose bodies are made while they go, and waits only so long for a client that takes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.types import Message, Send

from runtime.errors import SlowReader


@asynccontextmanager
async def within(limit_s: float) -> AsyncIterator[None]:
    """Give what is sent inside so many seconds to leave for the client.

    Raises:
        SlowReader: it did not.
    """
    try:
        async with asyncio.timeout(limit_s):
            yield
    except TimeoutError:
        raise SlowReader(limit=limit_s) from None


async def send_stream(
    send: Send,
    status: int,
    headers: Sequence[tuple[bytes, bytes]],
    pieces: AsyncIterator[bytes],
    limit_s: float,
    *,
    first: bytes = b"",
) -> None:
    """Send a response, ``first`` and then the pieces as they come.

    Raises:
        SlowReader: a piece did not leave within ``limit_s``.
    """

    async def pass_on(message: Message) -> None:
        async with within(limit_s):
            await send(message)

    await pass_on({"type": "http.response.start", "status": status, "headers": headers})
    if first:
        await pass_on({"type": "http.response.body", "body": first, "more_body": True})
    async for piece in pieces:
        await pass_on({"type": "http.response.body", "body": piece, "more_body": True})
    await pass_on({"type": "http.response.body", "body": b"", "more_body": False})
