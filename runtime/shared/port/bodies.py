"""Bodies of requests, with limits on their size, silence and pace, for every route of both ports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from runtime.errors import BodyTooSlow, InvalidMessage, MessageTooLarge, MoreThan, SessionIdle, UnsupportedEncoding

MIN_BYTES_PER_S = 1024
GRACE_S = 30.0  # Of waiting in all, before the pace matters.
_MAX_DIGITS = 19  # Of a Content-Length that is compared.


async def body_pieces(
    request: Request, *, max_bytes: int, idle_s: float, what: str = "The body"
) -> AsyncGenerator[bytes, None]:
    """Yield the body of a request piece by piece.

    Raises:
        UnsupportedEncoding, MessageTooLarge, SessionIdle, BodyTooSlow: as `bounded`.
        InvalidMessage: the client left before the end.
    """
    pieces = bounded(request.stream(), request.headers, max_bytes=max_bytes, idle_s=idle_s, what=what)
    try:
        async for piece in pieces:
            yield piece
    except ClientDisconnect:
        raise InvalidMessage(why="it was cut short") from None


async def whole_body(request: Request, *, max_bytes: int, idle_s: float, what: str = "The body") -> bytes:
    """Return the body of a request; raises as `body_pieces` does."""
    return b"".join([piece async for piece in body_pieces(request, max_bytes=max_bytes, idle_s=idle_s, what=what)])


async def bounded(
    received: AsyncIterator[bytes], headers: Headers, *, max_bytes: int, idle_s: float, what: str = "The body"
) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of a body that are received. Only the time in which the client is waited for counts.

    Raises:
        UnsupportedEncoding: the body is compressed.
        MessageTooLarge: it is larger than ``max_bytes``, or announced to be.
        SessionIdle: nothing of it was received for ``idle_s``.
        BodyTooSlow: it is slower than `MIN_BYTES_PER_S` after `GRACE_S`.
    """
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", ""}:
        raise UnsupportedEncoding
    announced = headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:_MAX_DIGITS]) > max_bytes:
        raise MessageTooLarge(what=what, size=int(announced[:_MAX_DIGITS]), limit=max_bytes)
    size, waited_s = 0, 0.0
    while True:
        began = time.monotonic()
        try:
            async with asyncio.timeout(idle_s):
                piece = await anext(received)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise SessionIdle(limit=idle_s) from None
        waited_s += time.monotonic() - began
        size += len(piece)
        if size > max_bytes:
            raise MessageTooLarge(what=what, size=MoreThan(max_bytes), limit=max_bytes)
        if waited_s > GRACE_S + size / MIN_BYTES_PER_S:
            raise BodyTooSlow(limit=MIN_BYTES_PER_S)
        yield piece
