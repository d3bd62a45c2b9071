"""Configures uvicorn as both of our ports run it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from runtime.settings import Settings
from runtime.shared.port.connections.http import HttpConnection
from runtime.shared.port.connections.loop_share import LoopShares
from runtime.shared.port.connections.waiting import Waiting, most_open
from runtime.shared.port.connections.websocket import WebSocketConnection
from runtime.shared.port.listening import WAITING
from runtime.shared.port.proxies import TrustedProxies

_KEEP_ALIVE_S = 15  # for the next request on an HTTP connection
# Connections that are accepted before those accepted before are looked at: asyncio takes as many at once as it is
# told may wait, and each is a file.
_ACCEPTED = 32


class Server(uvicorn.Server):
    """uvicorn without its own signal handlers: they close every socket with 1012, and die of the signal after."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        for listener in sockets or ():
            listener.listen(WAITING)  # asyncio has told the kernel the other number


def config(app: ASGIApp, settings: Settings, *, linger_s: int, **words: Any) -> uvicorn.Config:
    """How a port is served; ``linger_s`` is for what is open when the server is told to end."""
    server = settings.server
    waiting = Waiting(most_open(server.max_connections))
    return uvicorn.Config(
        TrustedProxies(app, server.proxies()),
        proxy_headers=False,  # uvicorn believes every entry of a proxy's header, or an address's.
        http=cast(Any, partial(HttpConnection, header_s=server.header_s, waiting=waiting)),
        ws=cast(Any, partial(WebSocketConnection, shares=LoopShares())),
        # Twice the limit, so that a file that is a little too large is answered with a sentence and not cut off.
        ws_max_size=2 * settings.limits.max_config_bytes,
        ws_ping_interval=server.ping_s,
        ws_ping_timeout=server.ping_s,
        ws_per_message_deflate=False,  # sound does not get smaller by it, only later
        backlog=_ACCEPTED,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=linger_s,
        log_level="warning",  # below, uvicorn writes addresses with their query strings, and so tickets
        access_log=False,
        server_header=False,
        **words,
    )
