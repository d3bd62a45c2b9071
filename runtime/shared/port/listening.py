"""Binds a port whose options every accepted connection inherits."""

from __future__ import annotations

import errno
import socket

from runtime.errors import InvalidSetting, PortInUse
from runtime.settings import ServerSettings

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
