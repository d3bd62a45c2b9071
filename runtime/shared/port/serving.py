"""Addresses, listening sockets and signals of a server process.

The runtime opens its engine before it imports the server. Therefore this module must not import web frameworks.
"""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from runtime.errors import InvalidSetting, PortInUse
from runtime.settings import ServerSettings

# Environment variable with the Wyoming address. The command `voicewright wyoming` has the option --uri instead.
WYOMING_VARIABLE = "VOICEWRIGHT_WYOMING"
LISTEN_BACKLOG = 1024  # Maximum number of connections that wait in the kernel until they are accepted.
# Additional seconds until the kernel drops a closed connection whose client does not read.
_KERNEL_GRACE_S = 15.0


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
