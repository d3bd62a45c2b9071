"""Limits for connections, request bodies, slow readers and the daily speech of an account."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Send

from runtime.errors import (
    BodyTooSlow,
    InvalidMessage,
    MessageTooLarge,
    MoreThan,
    SessionIdle,
    SlowReader,
    TooManyConnections,
    UnsupportedEncoding,
)
from runtime.settings import ServerSettings

_RETRY_AFTER_S = 1.0


class ConnectionCaps:
    """Counter and limits of open connections, in total and per address.

    Thread: event loop.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.by_address: Counter[str] = Counter()
        self._settings = settings

    def check(self, address: str) -> None:
        """Check that another connection from this address is within the limits.

        Loopback addresses have no limit per address.

        Raises:
            TooManyConnections: A limit is reached.
        """
        most, per_address = self._settings.max_connections, self._settings.max_connections_per_address
        if self.by_address.total() >= most:
            raise TooManyConnections(limit=most, retry_after_s=_RETRY_AFTER_S)
        if self.by_address[address] >= per_address and not _is_loopback(address):
            raise TooManyConnections(limit=per_address, retry_after_s=_RETRY_AFTER_S)

    @contextmanager
    def holding(self, address: str) -> Iterator[None]:
        """Count a connection from an address while the context is active."""
        self.by_address[address] += 1
        try:
            yield
        finally:
            self.by_address[address] -= 1
            if not self.by_address[address]:
                del self.by_address[address]


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


ACCOUNT_HEADER, SECONDS_HEADER, ACCOUNT_KEY_HEADER = ALLOWANCE_HEADERS = (
    "x-speech-account",
    "x-speech-seconds",
    "x-speech-account-key",
)
_MAX_ACCOUNT_CHARS = 200


@dataclass(frozen=True, slots=True)
class Allowance:
    """Account of a user and its daily limit of speech.

    Attributes:
        account: Id of the account.
        seconds: Seconds of speech per day, or None if they are unlimited.
    """

    account: str
    seconds: float | None = None

    def headers(self) -> dict[str, str]:
        return {ACCOUNT_HEADER: self.account} | ({} if self.seconds is None else {SECONDS_HEADER: f"{self.seconds:g}"})


def allowance_of(headers: Mapping[str, str]) -> Allowance | None:
    """Return the account in a request's headers, or None if the headers have no account.

    A gateway such as the studio sends these headers.
    """
    account = headers.get(ACCOUNT_HEADER, "")[:_MAX_ACCOUNT_CHARS]
    try:
        seconds = float(headers.get(SECONDS_HEADER, ""))
    except ValueError:
        seconds = math.inf
    return Allowance(account, seconds if math.isfinite(seconds) else None) if account else None


MIN_BYTES_PER_S = 1024
MAX_SEND_BYTES = 2**16  # Maximum number of bytes that are sent at once.
GRACE_S = 30.0  # Total seconds of waiting before the minimum data rate is enforced.
_MAX_DIGITS = 19  # Maximum number of digits in a Content-Length header.


async def body_pieces(
    request: Request, *, max_bytes: int, idle_s: float, what: str = "The body"
) -> AsyncGenerator[bytes, None]:
    """Yield the body of a request in pieces.

    Raises:
        UnsupportedEncoding, MessageTooLarge, SessionIdle, BodyTooSlow: See `bounded`.
        InvalidMessage: The client disconnected before the end of the body.
    """
    pieces = bounded(request.stream(), request.headers, max_bytes=max_bytes, idle_s=idle_s, what=what)
    try:
        async for piece in pieces:
            yield piece
    except ClientDisconnect:
        raise InvalidMessage(why="it was cut short") from None


async def whole_body(request: Request, *, max_bytes: int, idle_s: float, what: str = "The body") -> bytes:
    """Return the complete body of a request.

    The exceptions are the same as for `body_pieces`.
    """
    return b"".join([piece async for piece in body_pieces(request, max_bytes=max_bytes, idle_s=idle_s, what=what)])


async def bounded(
    received: AsyncIterator[bytes], headers: Headers, *, max_bytes: int, idle_s: float, what: str = "The body"
) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of a request body, and raise if the body exceeds a limit.

    Only time spent waiting for the client is counted.

    Raises:
        UnsupportedEncoding: The body is compressed.
        MessageTooLarge: The body or its Content-Length is larger than `max_bytes`.
        SessionIdle: No data was received for `idle_s` seconds.
        BodyTooSlow: After `GRACE_S`, the data rate is below `MIN_BYTES_PER_S`.
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


@asynccontextmanager
async def within(limit_s: float) -> AsyncIterator[None]:
    """Limit the time for which the ``with`` block may send data to a client.

    Raises:
        SlowReader: The client did not accept the data within `limit_s` seconds.
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
    """Send a streaming response: first the bytes in `first`, then each piece as it arrives.

    A large piece is sent in several steps, so that other tasks can run between them.

    Raises:
        SlowReader: The client did not accept a piece within `limit_s` seconds.
    """

    async def pass_on(message: Message) -> None:
        async with within(limit_s):
            await send(message)

    async def pass_on_piece(piece: bytes) -> None:
        for start in range(0, len(piece), MAX_SEND_BYTES):
            body = piece[start : start + MAX_SEND_BYTES]
            await pass_on({"type": "http.response.body", "body": body, "more_body": True})
            if len(piece) >= MAX_SEND_BYTES:
                # This call lets other tasks run, which a client that reads fast would otherwise block.
                await asyncio.sleep(0)

    await pass_on({"type": "http.response.start", "status": status, "headers": headers})
    await pass_on_piece(first)
    async for piece in pieces:
        await pass_on_piece(piece)
    await pass_on({"type": "http.response.body", "body": b"", "more_body": False})
