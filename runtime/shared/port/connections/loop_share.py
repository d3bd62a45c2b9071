"""Limits on the event loop time that one client may use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from runtime.shared.time_share import TimeShare

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
