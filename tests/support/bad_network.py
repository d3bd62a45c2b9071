"""TCP proxy that simulates delay, packet loss, low bandwidth and resets, like `netem`.

The proxy simulates packet loss as an application observes it: after a lost segment, all later data is
delayed by one retransmission timeout.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from math import inf

SEGMENT = 1448  # Number of payload bytes of a TCP segment over Ethernet.
RETRANSMISSION_S = 0.2  # Linux's minimum retransmission timeout, in addition to a round trip (RFC 6298).
MAX_SEGMENTS_IN_FLIGHT = 64  # Maximum number of segments in the simulated link, per direction.


@dataclass(frozen=True, slots=True)
class Link:
    """Delay, packet loss and bandwidth of a simulated link, equal for both directions."""

    delay_s: float = 0.0
    loss: float = 0.0  # Fraction of the segments that are retransmitted.
    bytes_s: float = inf
    segment: int = SEGMENT  # Maximum number of bytes per read from the sender.
    cut_after: int | None = None  # Number of bytes to the server after which both connections are reset, or None.


@dataclass(slots=True)
class BadNetwork:
    """Running TCP proxy that simulates one slow or unreliable link.

    ``lost`` is the number of lost segments. ``cut`` is the number of connections that were reset because they had
    transferred `Link.cut_after` bytes.
    """

    url: str  # URL of the proxied WebSocket.
    link: Link
    lost: int = 0
    cut: int = 0
    _dice: random.Random = field(default_factory=lambda: random.Random(1))
    _passes: asyncio.Event = field(default_factory=asyncio.Event)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def fall_silent(self) -> None:
        """Stop forwarding data but leave all connections open, like an unplugged network cable."""
        self._passes.clear()

    def reset(self) -> None:
        """Reset all connections of the proxy, to clients and to the server.

        A message may be cut in the middle.
        """
        for writer in self._writers:
            reset(writer)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut_after: int | None) -> None:
        """Forward data from `reader` to `writer` until one of the two connections is closed."""
        underway: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(MAX_SEGMENTS_IN_FLIGHT)
        delivering = asyncio.create_task(self._deliver(underway, writer))
        due, loop = 0.0, asyncio.get_running_loop()
        try:
            with suppress(ConnectionError):
                while data := await reader.read(self.link.segment):
                    if cut_after is not None and len(data) >= cut_after:
                        writer.write(data[:cut_after])
                        self.cut += 1
                        self.reset()
                        break
                    cut_after = None if cut_after is None else cut_after - len(data)
                    due = max(due, loop.time() + self.link.delay_s)
                    if self._dice.random() < self.link.loss:
                        self.lost += 1
                        due += 2 * self.link.delay_s + RETRANSMISSION_S
                    await underway.put((due, data))
            await underway.put((due, b""))
            await delivering
        finally:
            delivering.cancel()

    async def _deliver(self, underway: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, data = await underway.get()
            await asyncio.sleep(max(0.0, due - loop.time(), len(data) / self.link.bytes_s))
            await self._passes.wait()
            with suppress(ConnectionError):
                if not data:
                    writer.close()
                    return
                writer.write(data)
                await writer.drain()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection with RST instead of FIN."""
    kernel = writer.get_extra_info("socket")
    with suppress(OSError):
        kernel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def bad_network(port: int, link: Link) -> AsyncIterator[BadNetwork]:
    """Run a proxy for a local port over a simulated link.

    All connections are reset when the block ends.
    """
    network = BadNetwork("", link)
    network._passes.set()
    carrying: set[asyncio.Task[None]] = set()

    async def accept(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        kernel = socket.socket()
        # The receive buffer is small, so that data queues in the simulated link instead of the kernel.
        kernel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * SEGMENT)
        kernel.setblocking(False)
        await asyncio.get_running_loop().sock_connect(kernel, ("127.0.0.1", port))
        server, to_server = await asyncio.open_connection(sock=kernel, limit=SEGMENT)
        network._writers |= {to_client, to_server}
        for way in (network.carry(client, to_server, link.cut_after), network.carry(server, to_client, None)):
            task = asyncio.create_task(way)
            carrying.add(task)
            task.add_done_callback(carrying.discard)

    listening = await asyncio.start_server(accept, "127.0.0.1", 0, limit=SEGMENT)
    network.url = f"ws://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1/audio/speech/stream"
    try:
        yield network
    finally:
        listening.close()
        network.reset()
        for task in list(carrying):
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)
