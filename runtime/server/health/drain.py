"""Orderly shutdown: refuses new requests, finishes running ones, notifies clients. Thread: event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from runtime.errors import Draining
from runtime.server.engine_host import Host

GOODBYE_S = 2.0  # Timeout for the final messages to all clients.
HURRIED_GOODBYE_S = 0.3  # The same after a second signal.
_POLL_INTERVAL_S = 0.02  # Poll interval of running requests.


async def drain(host: Host, hurry: asyncio.Event, tell: Callable[[float], None]) -> None:
    """Return once no client is served any more, ``drain_s`` have passed, or ``hurry`` is set.

    ``tell`` hears these seconds where something is spoken, which is waited for.
    """
    drain_s = host.settings.server.drain_s
    if host.is_speaking and drain_s:
        tell(drain_s)
    host.refuse(Draining())
    for socket in tuple(host.sockets):
        socket.drain()
    loop = asyncio.get_running_loop()
    end = loop.time() + drain_s
    while host.is_serving and loop.time() < end and not hurry.is_set():  # noqa: ASYNC110  several things to await at once
        await asyncio.sleep(_POLL_INTERVAL_S)
    await host.shut(Draining(), 1001, patience_s=HURRIED_GOODBYE_S if hurry.is_set() else GOODBYE_S)
