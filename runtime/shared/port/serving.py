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
from runtime.shared.port.connections.waiting import Waiting, most_open
from runtime.shared.port.connections.websocket import WebSocketConnection
from runtime.shared.port.origins import TrustedProxies

WYOMING = "VOICEWRIGHT_WYOMING"  # Also --uri of `voicewright wyoming`.


def address_of(uri: str, *, setting: str) -> tuple[str, int]:
    """The host and port of ``tcp://HOST:PORT``, which ``setting`` holds.

    Raises:
        InvalidSetting: it is none.
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
    """Have the running loop call ``told`` for each signal that comes. On the main thread."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        try:
            loop.add_signal_handler(number, told)
        except NotImplementedError:  # Windows' loop
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(told))


def stop_on_signals(numbers: Sequence[signal.Signals], stop: asyncio.Event, hurry: asyncio.Event) -> None:
    """Let the first signal set ``stop``, and the next ``hurry``. On the main thread."""
    on_signals(numbers, lambda: (hurry if stop.is_set() else stop).set())


def tell_of_wait(limit_s: float) -> None:
    """Tell the operator, whose signal has come, why the process goes on, for how long at most, and what ends it."""
    with suppress(OSError, ValueError):  # nobody may read it any more: a pipe's other end had Ctrl-C too
        print(f"Finishing what is spoken, {limit_s:g} s at most; Ctrl-C again ends at once.", flush=True)


def ignore_signals(numbers: Sequence[signal.Signals]) -> None:
    """Have signals do nothing from now on; the process is ending already. On the main thread."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


WAITING = 1024  # Kernel backlog of connections.
_KERNEL_GRACE_S = 15.0  # after which the kernel drops a peer that we have closed on and that takes nothing


def listen(settings: ServerSettings, host: str, port: int, *, option: str) -> socket.socket:
    """Bind a listening socket. Arguments and errors are those of `bind`."""
    listener = bind(settings, host, port, option=option)
    listener.listen(WAITING)
    return listener


def bind(settings: ServerSettings, host: str, port: int, *, option: str, is_shared: bool = False) -> socket.socket:
    """Bind a socket that does not listen yet. ``option`` names what else the operator may say.

    Another process of the same user may bind a port that both say ``is_shared``; connections go to those that listen.

    Raises:
        PortInUse, InvalidSetting: the address cannot be bound.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidSetting(name="host", value=host, why=error.strerror) from None
    # Windows would let another process take a port that is in use, and gives one that has just been left anyway.
    own = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
    listener.setsockopt(socket.SOL_SOCKET, own, 1)
    if is_shared and hasattr(socket, "SO_REUSEPORT"):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    # A small buffer, so that sound waits here, where a cancel takes it back, and not in the kernel.
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
    """Let the kernel drop a peer that takes nothing; it would keep a closed connection until its buffer has drained."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        patience_s = settings.send_s + _KERNEL_GRACE_S  # so that the server's own reason comes first
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(patience_s * 1000))


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
