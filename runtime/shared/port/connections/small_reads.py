"""Reads of a bounded size, so that parsing one of them never holds the event loop for long."""

from __future__ import annotations

import asyncio

READ_BYTES = 4096  # At most 5 ms of work, for any content.


class SmallReads(asyncio.BufferedProtocol):
    """Mixin: the loop serves other connections after every `READ_BYTES`.

    By default asyncio reads 256 KiB at once, which may be 43,000 empty WebSocket frames.
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
