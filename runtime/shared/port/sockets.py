"""Listening sockets of servers, and their kernel timeouts.

The runtime opens its engine before it imports the server. Therefore this module must not import web frameworks.
"""

from __future__ import annotations

import errno
import socket

from runtime.errors import InvalidSetting, PortInUse
from runtime.settings import ServerSettings

LISTEN_BACKLOG = 1024  # Maximum number of connections that wait in the kernel until they are accepted.
# Additional seconds until the kernel drops a closed connection whose client does not read.
_KERNEL_GRACE_S = 15.0


def listen(settings: ServerSettings, host: str, port: int, *, option: str) -> socket.socket:
    """Bind a socket to an address and listen for connections.

    The arguments and exceptions are the same as for `bind`.
    """
    listener = bind(settings, host, port, option=option)
    listener.listen(LISTEN_BACKLOG)
    return listener


def bind(settings: ServerSettings, host: str, port: int, *, option: str, is_shared: bool = False) -> socket.socket:
    """Bind a socket to an address without listening.

    If several processes of one user bind the same port, the kernel distributes connections among those that listen.

    Args:
        settings: Settings of the server.
        host: Host name or address.
        port: Port number.
        option: Name of the command-line option for error messages.
        is_shared: True if several processes of one user may bind the port.

    Raises:
        PortInUse, InvalidSetting: The address cannot be bound.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidSetting(name="host", value=host, why=error.strerror) from None
    # On Windows, another process could otherwise bind the same port.
    reuse_option = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
    listener.setsockopt(socket.SOL_SOCKET, reuse_option, 1)
    if is_shared and hasattr(socket, "SO_REUSEPORT"):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    # A small kernel buffer keeps unsent audio in this process, where a cancel can discard the audio.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
    set_kernel_timeout(listener, settings)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(port=port, host=host, option=option) from None
        raise InvalidSetting(name="host", value=host, why=error.strerror) from None
    return listener


def set_kernel_timeout(connection: socket.socket, settings: ServerSettings) -> None:
    """Make the kernel drop a closed connection whose client does not read the remaining data.

    By default, the kernel would wait much longer for the client.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # The kernel's timeout is longer, so that the server's timeout expires first and the server can send the reason.
        timeout_s = settings.send_s + _KERNEL_GRACE_S
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(timeout_s * 1000))
