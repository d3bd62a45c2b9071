"""The runtime process: a listening socket, uvicorn, the host's engine, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import cast

import uvicorn

from runtime.errors import EngineDead, InvalidSetting, PortInUse
from runtime.server import logs
from runtime.server.app import create_app
from runtime.server.connections import HttpConnection, WebSocketConnection
from runtime.server.drain import GOODBYE_S, drain
from runtime.server.host import Host, OpenEngine
from runtime.server.speech_engine import Progress, SpeechEngine
from runtime.settings import ServerSettings, Settings

SWITCH_S = 0.0005  # between the interpreter's threads
ENGINE_DIED = 70  # EX_SOFTWARE: whoever started the process should start it again

_LINGER_S = 3  # for the closing handshakes that are left after the goodbyes
_KEEP_ALIVE_S = 15  # for the next request on an HTTP connection
_KERNEL_GRACE_S = 15.0  # after which the kernel drops a peer that we have closed on and that takes nothing


def serve(settings: Settings) -> int:
    """Run until told to end; return the exit status: 0 asked to, 70 the engine died.

    Raises:
        SetUpError: the port, a checkpoint or the device cannot be used.
    """
    logs.set_up(settings.server)
    # Whoever wakes the engine's thread waits for the interpreter until another thread gives it up. At the 5 ms that
    # are usual that is longer than a frame.
    sys.setswitchinterval(SWITCH_S)
    return asyncio.run(run(settings, listen(settings.server), _open_engine))


def _open_engine(settings: Settings, progress: Progress) -> SpeechEngine:
    from runtime.engine.engine import Engine  # torch takes seconds to import; the port is open meanwhile

    return Engine.open(settings, progress)


def listen(settings: ServerSettings) -> socket.socket:
    """Bind the listening socket; the options set here are inherited by every accepted one.

    Raises:
        PortInUse, InvalidSetting: the address cannot be bound.
    """
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidSetting(name="host", value=settings.host, why=error.strerror) from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # A small buffer, so that sound waits here, where a cancel takes it back, and not in the kernel.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # A peer that takes nothing keeps a closed connection open until its buffer has drained, which is for ever.
        patience_s = settings.send_s + _KERNEL_GRACE_S  # so that it is we who say why
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(patience_s * 1000))
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(port=settings.port, host=settings.host, option="--port") from None
        raise InvalidSetting(name="host", value=settings.host, why=error.strerror) from None
    return listener


async def run(
    settings: Settings, listener: socket.socket, open_engine: OpenEngine, stop: asyncio.Event | None = None
) -> int:
    """Serve on a bound socket until SIGTERM, SIGINT, ``stop`` or cancellation. A second signal waits for nobody.

    Raises:
        SetUpError: loading failed.
    """
    host = Host(settings, open_engine)
    server = _Server(_config(settings, host))
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="uvicorn")
    living = asyncio.create_task(_live(host, _url(listener)), name="engine-life")
    stop, hurry = stop or asyncio.Event(), asyncio.Event()
    _set_on_signals(stop, hurry)
    stopping = asyncio.create_task(stop.wait(), name="signals")
    lag = asyncio.create_task(host.metrics.watch_lag(), name="loop-lag")
    try:
        await asyncio.wait({living, stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
        died = living.done() and living.exception() is None
        if died:
            await host.shut(EngineDead(), EngineDead().outcome.close, patience_s=GOODBYE_S)
        elif living.done():
            living.result()
        elif serving.done():
            serving.result()  # uvicorn could not start
        else:
            await drain(host, hurry)
        return ENGINE_DIED if died else 0
    finally:
        for task in (living, stopping, lag):
            task.cancel()
        server.force_exit = hurry.is_set()
        server.should_exit = True
        await asyncio.gather(serving, living, stopping, lag, return_exceptions=True)
        host.close()


async def _live(host: Host, url: str) -> None:
    """Load, say that the runtime is ready, and return when its engine dies."""
    await host.load()
    gc.collect()
    gc.freeze()  # what is loaded stays: to look through it again and again would hold up frames
    print(f"Voicewright runtime ready at {url}", flush=True)
    await host.watch()


def _set_on_signals(stop: asyncio.Event, hurry: asyncio.Event) -> None:
    """Let the first SIGTERM or SIGINT set ``stop``, and the next ``hurry``."""
    loop = asyncio.get_running_loop()

    def told() -> None:
        (hurry if stop.is_set() else stop).set()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, told)


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers: they close every socket with 1012, and die of the signal after."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(settings: Settings, host: Host) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(host),
        http=cast(type[asyncio.Protocol], partial(HttpConnection, header_s=settings.server.header_s)),
        ws=WebSocketConnection,
        # Twice the limit, so that a file that is a little too large is answered with a sentence and not cut off.
        ws_max_size=2 * settings.limits.max_config_bytes,
        ws_ping_interval=settings.server.ping_s,
        ws_ping_timeout=settings.server.ping_s,
        ws_per_message_deflate=False,  # sound does not get smaller by it, only later
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_LINGER_S,
        proxy_headers=False,  # anybody can write them; caps and rates go by the address that is connected
        lifespan="off",
        log_config=None,
        log_level="warning",  # below, uvicorn writes addresses with their query strings, and so tickets
        access_log=False,
        server_header=False,
    )


def _url(listener: socket.socket) -> str:
    name, port = listener.getsockname()[:2]
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
