"""Configuration of uvicorn, and signal handling at shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp

from runtime.errors import InvalidSetting
from runtime.settings import Settings
from runtime.shared.port.connections.http import HttpConnection
from runtime.shared.port.connections.meters import IdleConnections, LoopShares, max_open
from runtime.shared.port.connections.websocket import WebSocketConnection
from runtime.shared.port.origins import TrustedProxies
from runtime.shared.port.sockets import LISTEN_BACKLOG

# Environment variable with the Wyoming address. The command `voicewright wyoming` has the option --uri instead.
WYOMING_VARIABLE = "VOICEWRIGHT_WYOMING"


def address_of(uri: str, *, setting: str) -> tuple[str, int]:
    """Parse ``tcp://HOST:PORT`` into a host and a port.

    Args:
        uri: Text to parse.
        setting: Name of the setting for the error message.

    Raises:
        InvalidSetting: The text has another format.
    """
    try:
        parts = urlsplit(uri)
        name, port = parts.hostname, parts.port
    except ValueError:
        name = port = None
    if name is None or port is None or parts.scheme != "tcp" or parts.path or parts.query:
        raise InvalidSetting(name=setting, value=repr(uri), why="it must be tcp://HOST:PORT")
    return name, port


def on_signals(numbers: Sequence[signal.Signals], on_signal: Callable[[], None]) -> None:
    """Call `on_signal` in the running event loop for each of these signals.

    Thread: main thread.
    """
    loop = asyncio.get_running_loop()
    for number in numbers:
        try:
            loop.add_signal_handler(number, on_signal)
        except NotImplementedError:  # The event loop of Windows does not support signal handlers.
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(on_signal))


def stop_on_signals(numbers: Sequence[signal.Signals], stop: asyncio.Event, second_signal: asyncio.Event) -> None:
    """Set the event `stop` at the first signal, and `second_signal` at the next signal.

    Thread: main thread.
    """
    on_signals(numbers, lambda: (second_signal if stop.is_set() else stop).set())


def log_drain_wait(limit_s: float) -> None:
    """Print that the process waits for running speech before it ends.

    The message contains the maximum waiting time and explains how to end the wait immediately.
    """
    with suppress(OSError, ValueError):  # Ctrl-C may also have ended the program that reads stdout or stderr.
        print(f"Finishing running speech, {limit_s:g} s at most; press Ctrl-C again to end at once.", flush=True)


def ignore_signals(numbers: Sequence[signal.Signals]) -> None:
    """Ignore these signals, because the process is already ending.

    Thread: main thread.
    """
    loop = asyncio.get_running_loop()
    for number in numbers:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


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


def config(app: ASGIApp, settings: Settings, *, linger_s: int, **kwargs: Any) -> uvicorn.Config:
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
