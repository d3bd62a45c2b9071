"""Limits on the event loop time that one client may use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from runtime.shared.time_share import TimeShare

READ_BYTES = 4096  # Number of bytes that can be parsed in at most 5 ms, regardless of their content.
_THROTTLED_SHARE = 0.1  # Fraction of the event loop's time that all throttled clients share.
_BURST_S = 0.025  # Event loop time in seconds of a burst (about 50 short messages).
_MAX_REST_S = 1.0
# Event loop time in seconds to read and answer a short message of a session, as measured on a busy core.
_MESSAGE_S = 500e-6
_BYTE_S = 20e-9


class LoopShares:
    """Counter of the throttled clients of a port.

    Together, these clients may use the fraction `_THROTTLED_SHARE` of the event loop's time.
    """

    def __init__(self) -> None:
        self.resting = 0


class LoopShare:
    """Event loop time that one client has used."""

    def __init__(self, shares: LoopShares, loop: asyncio.AbstractEventLoop) -> None:
        self._shares = shares
        self._loop = loop
        self._time = TimeShare(_THROTTLED_SHARE, _BURST_S, _MAX_REST_S)
        self._rest: asyncio.TimerHandle | None = None

    @property
    def is_resting(self) -> bool:
        return self._rest is not None

    def begin_rest(self, rest_s: float, then: Callable[[], None]) -> None:
        """Throttle the client for `rest_s` seconds, then call `then`."""

        def end() -> None:
            self.stop_rest()
            then()

        self._shares.resting += 1
        self._rest = self._loop.call_later(rest_s, end)

    def stop_rest(self) -> None:
        """End the throttling now, without calling the callback."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
            self._shares.resting -= 1

    async def pause(self, pause_s: float) -> None:
        """Throttle the client for `pause_s` seconds."""
        self._shares.resting += 1
        try:
            await asyncio.sleep(pause_s)
        finally:
            self._shares.resting -= 1

    def charge(self, cost_s: float) -> float:
        """Count event loop time of the client, and return the seconds to pause reading."""
        return self._time.charge(cost_s, self._loop.time(), users=max(1, self._shares.resting))


def message_cost(size: int) -> float:
    """Return the event loop time in seconds that a message needs.

    Args:
        size: Number of bytes or characters of the message.
    """
    return _MESSAGE_S + size * _BYTE_S


class SmallReads(asyncio.BufferedProtocol):
    """Protocol mixin that reads at most `READ_BYTES` at a time.

    Other connections are served in between. By default, asyncio reads 256 KiB at once, which may contain 43,000 empty
    WebSocket frames.
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
