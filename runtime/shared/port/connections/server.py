"""Server of uvicorn with this package's connection classes."""

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
from runtime.shared.port.connections.meters import IdleConnections, LoopShares, max_open
from runtime.shared.port.connections.websocket import WebSocketConnection
from runtime.shared.port.origins import TrustedProxies
from runtime.shared.port.serving import LISTEN_BACKLOG

_KEEP_ALIVE_TIMEOUT_S = 15  # Maximum seconds between two requests on an HTTP connection.
# Number of connections that asyncio accepts at once. By default, asyncio accepts all waiting connections, and each
# connection needs a file descriptor.
_ACCEPTED = 32


class Server(uvicorn.Server):
    """Server of uvicorn without uvicorn's signal handlers.

    These handlers would close all WebSockets with code 1012 and raise the signal again.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        for listener in sockets or ():
            listener.listen(LISTEN_BACKLOG)  # The backlog is set again, because asyncio has changed it to `_ACCEPTED`.


def server_config(app: ASGIApp, settings: Settings, *, linger_s: int, **kwargs: Any) -> uvicorn.Config:
    """Return uvicorn's configuration for a port.

    Args:
        app: ASGI application.
        settings: Settings of the server.
        linger_s: Timeout of open requests at shutdown in seconds.
    """
    server = settings.server
    idle_connections = IdleConnections(max_open(server.max_connections))
    shares = LoopShares()
    return uvicorn.Config(
        TrustedProxies(app, server.proxies()),
        proxy_headers=False,  # The proxy headers of uvicorn are off, because uvicorn would trust all entries.
        http=cast(
            Any, partial(HttpConnection, header_s=server.header_s, idle_connections=idle_connections, shares=shares)
        ),
        ws=cast(Any, partial(WebSocketConnection, shares=shares)),
        # The limit is doubled, so that a message slightly above the real limit gets an error message instead of a
        # disconnect.
        ws_max_size=2 * settings.limits.max_config_bytes,
        ws_ping_interval=server.ping_s,
        ws_ping_timeout=server.ping_s,
        ws_per_message_deflate=False,  # Compression is off, because it delays audio and does not make it smaller.
        backlog=_ACCEPTED,
        timeout_keep_alive=_KEEP_ALIVE_TIMEOUT_S,
        timeout_graceful_shutdown=linger_s,
        log_config=None,  # The log handlers of uvicorn are not used, because they do not limit repeated lines.
        log_level="warning",  # Lower levels would log URLs with query strings, which may contain tickets.
        access_log=False,
        server_header=False,
        **kwargs,
    )
