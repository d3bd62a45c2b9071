"""Meters of a client's event loop time, headers, small frames and idle connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from runtime.errors import HeadersTooLarge, TooManyFrames
from runtime.shared.interpreter import TimeShare
from runtime.shared.system import max_files

READ_BYTES = 4096  # Number of bytes whose parsing takes at most 5 ms, regardless of their content.
_THROTTLED_SHARE = 0.1  # Fraction of the event loop's time that all throttled clients together may use.
_BURST_S = 0.025  # Seconds of event loop time that a client may use in a burst (about 50 short messages).
_MAX_PAUSE_S = 1.0
# Seconds of event loop time that reading and answering a short message takes, as measured on a busy core.
_MESSAGE_S = 500e-6
_BYTE_S = 20e-9


class LoopShares:
    """Number of currently throttled clients of a port.

    Together, these clients may use the fraction `_THROTTLED_SHARE` of the event loop's time.
    """

    def __init__(self) -> None:
        self.throttled_count = 0


class LoopShare:
    """Meter of the event loop time that one client uses, which also throttles the client."""

    def __init__(self, shares: LoopShares, loop: asyncio.AbstractEventLoop) -> None:
        self._shares = shares
        self._loop = loop
        self._time = TimeShare(_THROTTLED_SHARE, _BURST_S, _MAX_PAUSE_S)
        self._throttle_timer: asyncio.TimerHandle | None = None

    @property
    def is_throttled(self) -> bool:
        return self._throttle_timer is not None

    def throttle(self, pause_s: float, then: Callable[[], None]) -> None:
        """Mark the client as throttled for `pause_s` seconds, then call `then`.

        This method does not block.
        """

        def end() -> None:
            self.stop_throttling()
            then()

        self._shares.throttled_count += 1
        self._throttle_timer = self._loop.call_later(pause_s, end)

    def stop_throttling(self) -> None:
        """End the throttling of `throttle` now, without calling its callback."""
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
            self._throttle_timer = None
            self._shares.throttled_count -= 1

    async def sleep_throttled(self, pause_s: float) -> None:
        """Mark the client as throttled and sleep for `pause_s` seconds."""
        self._shares.throttled_count += 1
        try:
            await asyncio.sleep(pause_s)
        finally:
            self._shares.throttled_count -= 1

    def charge(self, cost_s: float) -> float:
        """Record event loop time that the client has used.

        Returns:
            Time in seconds for which the client must be throttled.
        """
        return self._time.charge(cost_s, self._loop.time(), users=max(1, self._shares.throttled_count))


def message_cost(size: int) -> float:
    """Estimate the event loop time in seconds for processing a WebSocket message.

    Args:
        size: Number of bytes or characters of the message.
    """
    return _MESSAGE_S + size * _BYTE_S


class SmallReads(asyncio.BufferedProtocol):
    """Protocol mixin that reads at most `READ_BYTES` at a time.

    The event loop serves other connections between two reads. By default, asyncio reads up to 256 KiB in one call, and
    this data may contain 43,000 empty WebSocket frames.
    """

    _read_buffer = bytearray()

    def get_buffer(self, sizehint: int) -> bytearray:
        self._read_buffer = bytearray(READ_BYTES)
        return self._read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        data, self._read_buffer = bytes(memoryview(self._read_buffer)[:nbytes]), bytearray()
        self.data_received(data)

    def data_received(self, data: bytes) -> None:
        raise NotImplementedError


# Maximum size in bytes of the request line and headers. Browsers and proxies send at most 16 KiB.
MAX_HEAD_BYTES = 32 * 2**10
MAX_FIELDS = 100
MAX_FRAMING_BYTES = 64 * 2**10  # Maximum total size in bytes of chunk sizes, chunk extensions and trailers.


class RequestMeter:
    """Counter of the bytes and headers of each HTTP request on one connection.

    The block of received data in which a request starts is not counted, because the position of the request in the
    block is unknown.

    Raises:
        HeadersTooLarge: `count_field` and `end_read` raise this error if the request exceeds a limit.
    """

    def __init__(self) -> None:
        self._is_open = False  # True while a request is being received.
        self._has_begun_in_read = False
        self._is_head = False
        self._fields = 0
        self._extra_bytes = 0  # Number of received bytes that do not belong to the body's data.
        self._body_bytes = 0
        self._read_body_bytes = 0

    def begin(self) -> None:
        """Record the start of a request."""
        self._is_open = self._has_begun_in_read = self._is_head = True
        self._fields = self._extra_bytes = self._body_bytes = 0

    def count_field(self) -> bool:
        """Count a header or trailer, and return True if it is a header."""
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise headers_too_large()
        return self._is_head

    def end_head(self) -> None:
        """Record the end of the headers.

        Trailers are counted separately.
        """
        self._is_head = False
        self._fields = self._extra_bytes = 0

    def count_body(self, size: int) -> None:
        """Count `size` bytes of body data."""
        self._body_bytes += size
        self._read_body_bytes += size

    def end(self) -> None:
        """Record the end of the request."""
        self._is_open = False

    def begin_read(self) -> None:
        """Record that a block of data was received."""
        self._has_begun_in_read = False
        self._read_body_bytes = 0

    def end_read(self, size: int) -> None:
        """Record that a block of `size` bytes was parsed."""
        if self._has_begun_in_read or not self._is_open:
            return
        self._extra_bytes += size - self._read_body_bytes
        if self._extra_bytes > (MAX_HEAD_BYTES if self._is_head else MAX_FRAMING_BYTES + self._body_bytes):
            raise headers_too_large()


def headers_too_large() -> HeadersTooLarge:
    """Return a new HeadersTooLarge error with the limits on number and size of headers."""
    return HeadersTooLarge(max_fields=MAX_FIELDS, max_bytes=MAX_HEAD_BYTES)


MAX_TINY_FRAMES = 200
_TINY_FRAMES_PER_S = 20.0
_TINY_BYTES = 16
# Number of empty fragments per message that are not counted, because some clients send an empty first or last fragment.
_FREE_FRAGMENTS = 2


class FrameMeter:
    """Token bucket that limits the number of small WebSocket frames of one connection.

    A ping, a pong or a tiny fragment costs one token. Complete messages are free.

    Raises:
        TooManyFrames: `count_control` and `count_fragment` raise this error if no token is left.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tokens = float(MAX_TINY_FRAMES)
        self._filled_at = clock()
        self._free_fragments = _FREE_FRAGMENTS

    def begin_message(self) -> None:
        """Start a new message, whose first small fragments are not counted."""
        self._free_fragments = _FREE_FRAGMENTS

    def count_fragment(self, size: int) -> None:
        """Count a continuation fragment of `size` bytes, which costs a token if it is tiny."""
        if size >= _TINY_BYTES:
            return
        if self._free_fragments:
            self._free_fragments -= 1
        else:
            self.count_control()

    def count_control(self) -> None:
        """Count a ping or a pong, which costs one token."""
        now = self._clock()
        self._tokens = min(MAX_TINY_FRAMES, self._tokens + _TINY_FRAMES_PER_S * (now - self._filled_at)) - 1
        self._filled_at = now
        if self._tokens < 0:
            raise TooManyFrames(limit=MAX_TINY_FRAMES)


class Droppable(Protocol):
    """Connection that can be closed immediately."""

    def drop(self) -> None: ...


def max_open(max_connections: int) -> int:
    """Return the maximum number of open connections of a port, including idle connections.

    The maximum is twice `max_connections`, because half of the connections may be idle keep-alive connections. It is at
    most half of the process's limit of open files, because a proxied connection needs two files.
    """
    files = max_files()
    return 2 * max_connections if files is None else max(1, min(2 * max_connections, files // 2))


class IdleConnections:
    """Idle connections of a port, in the order in which they became idle.

    If the port is full, the connection that has been idle longest is closed.
    """

    def __init__(self, max_open: int) -> None:
        self.max_open = max_open
        # Idle connections in the order in which they became idle, the earliest first.
        self._idle: dict[Droppable, None] = {}

    def add_connection(self, connection: Droppable) -> None:
        self.discard(connection)
        self._idle[connection] = None

    def discard(self, connection: Droppable) -> None:
        self._idle.pop(connection, None)

    def longest_idle(self) -> Droppable | None:
        return next(iter(self._idle), None)
