"""Listening sockets, the configuration of uvicorn, and the signals that end a server."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp

from runtime.errors import InvalidSetting, PortInUse
from runtime.settings import ServerSettings, Settings
from runtime.shared.port.connections.http import HttpConnection
from runtime.shared.port.connections.loop_share import LoopShares
from runtime.shared.port.connections.waiting import Waiting, max_open
from runtime.shared.port.connections.websocket import WebSocketConnection
from runtime.shared.port.origins import TrustedProxies

WYOMING = "VOICEWRIGHT_WYOMING"  # Also --uri of `voicewright wyoming`.


def address_of(uri: str, *, setting: str) -> tuple[str, int]:
    """Parse ``tcp://HOST:PORT``; `setting` is the setting's name for the error.

    Raises:
        InvalidSetting: The text has another form.
    """
    try:
        parts = urlsplit(uri)
        name, port = parts.hostname, parts.port
    except ValueError:
        name = port = None
    if name is None or port is None or parts.scheme != "tcp" or parts.path or parts.query:
        raise InvalidSetting(name=setting, value=repr(uri), why="it must be tcp://HOST:PORT")
    return name, port


def on_signals(numbers: Sequence[signal.Signals], told: Callable[[], None]) -> None:
    """Make the running loop call `told` for each of these signals. Thread: main."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        try:
            loop.add_signal_handler(number, told)
        except NotImplementedError:  # The event loop of Windows has no signal handlers.
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(told))


def stop_on_signals(numbers: Sequence[signal.Signals], stop: asyncio.Event, hurry: asyncio.Event) -> None:
    """Make the first signal set `stop`, and the next one `hurry`. Thread: main."""
    on_signals(numbers, lambda: (hurry if stop.is_set() else stop).set())


def tell_of_wait(limit_s: float) -> None:
    """Print that the process waits for open requests, the maximum time, and how to end it immediately."""
    with suppress(OSError, ValueError):  # The reader of a pipe may have ended by the same Ctrl-C.
        print(f"Finishing what is spoken, {limit_s:g} s at most; Ctrl-C again ends at once.", flush=True)


def ignore_signals(numbers: Sequence[signal.Signals]) -> None:
    """Ignore signals, because the process is already ending. Thread: main."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


WAITING = 1024  # Kernel backlog of connections.
_KERNEL_GRACE_S = 15.0  # Additional time until the kernel drops a closed connection whose peer reads nothing.


def listen(settings: ServerSettings, host: str, port: int, *, option: str) -> socket.socket:
    """Bind a listening socket. Arguments and errors are those of `bind`."""
    listener = bind(settings, host, port, option=option)
    listener.listen(WAITING)
    return listener


def bind(settings: ServerSettings, host: str, port: int, *, option: str, is_shared: bool = False) -> socket.socket:
    """Bind a socket that does not listen yet. `option` is the option's name for the error.

    With `is_shared`, several processes of the same user may bind the port; connections go to those that listen.

    Raises:
        PortInUse, InvalidSetting: The address cannot be bound.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidSetting(name="host", value=host, why=error.strerror) from None
    # Without the exclusive option, Windows would let another process bind a port in use.
    own = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
    listener.setsockopt(socket.SOL_SOCKET, own, 1)
    if is_shared and hasattr(socket, "SO_REUSEPORT"):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    # A small buffer, so that audio waits in this process, where a cancel can discard it, and not in the kernel.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
    give_up(listener, settings)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(port=port, host=host, option=option) from None
        raise InvalidSetting(name="host", value=host, why=error.strerror) from None
    return listener


def give_up(connection: socket.socket, settings: ServerSettings) -> None:
    """Make the kernel drop a connection whose peer reads nothing; otherwise it would wait for the buffer to drain."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        patience_s = settings.send_s + _KERNEL_GRACE_S  # Longer than the server's own timeout, which sends a reason.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(patience_s * 1000))


_KEEP_ALIVE_S = 15  # Timeout for the next request on an HTTP connection.
# Maximum connections that are accepted at once. By default, asyncio accepts the whole backlog, and each connection is
# a file.
_ACCEPTED = 32


class Server(uvicorn.Server):
    """Server of uvicorn without its signal handlers, which close every socket with 1012 and re-raise the signal."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        for listener in sockets or ():
            listener.listen(WAITING)  # Set the real backlog; asyncio has passed `_ACCEPTED` to the kernel.


def config(app: ASGIApp, settings: Settings, *, linger_s: int, **words: Any) -> uvicorn.Config:
    """Return uvicorn's configuration of a port; `linger_s` is the timeout of open requests at shutdown."""
    server = settings.server
    waiting = Waiting(max_open(server.max_connections))
    shares = LoopShares()
    return uvicorn.Config(
        TrustedProxies(app, server.proxies()),
        proxy_headers=False,  # Disabled, because uvicorn trusts all entries of the proxy headers.
        http=cast(Any, partial(HttpConnection, header_s=server.header_s, waiting=waiting, shares=shares)),
        ws=cast(Any, partial(WebSocketConnection, shares=shares)),
        # Twice the limit, so that a slightly too large message gets an error message and not a disconnect.
        ws_max_size=2 * settings.limits.max_config_bytes,
        ws_ping_interval=server.ping_s,
        ws_ping_timeout=server.ping_s,
        ws_per_message_deflate=False,  # Compression delays audio without making it smaller.
        backlog=_ACCEPTED,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=linger_s,
        log_level="warning",  # Lower levels would log URLs with their query strings, which contain tickets.
        access_log=False,
        server_header=False,
        **words,
    )
