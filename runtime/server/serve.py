"""Startup and shutdown of the web server with its engine."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable

from runtime.errors import Draining, EngineDead
from runtime.exits import Exit
from runtime.server.app import create_app
from runtime.server.engine_host import EngineHost, OpenEngine
from runtime.server.wyoming.port import WyomingPort
from runtime.settings import Settings
from runtime.shared.interpreter import settle
from runtime.shared.port.connections.server import Server, server_config
from runtime.shared.port.serving import ignore_signals, log_drain_wait, stop_on_signals

FINAL_MESSAGES_TIMEOUT_S = 2.0
HURRIED_FINAL_MESSAGES_TIMEOUT_S = 0.3  # Timeout in seconds for the final messages after a second signal.
_POLL_INTERVAL_S = 0.02  # Interval in seconds at which the shutdown checks for open requests.

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_CLOSE_TIMEOUT_S = 3  # Timeout in seconds for the close handshakes after the final messages.


def serve(settings: Settings, listener: socket.socket, open_engine: OpenEngine) -> int:
    """Serve on a bound socket until SIGTERM or SIGINT and return the exit status (`Exit`).

    Raises:
        SetUpError: Loading failed, or the Wyoming port cannot be used.
    """
    status = asyncio.run(_run_alone(settings, listener, open_engine))
    if threading.active_count() > 1:
        # The interpreter's normal shutdown is skipped, because it would abort while other threads still load or
        # compute.
        logging.shutdown()
        sys.stdout.flush()
        os._exit(status)
    return status


async def _run_alone(settings: Settings, listener: socket.socket, open_engine: OpenEngine) -> int:
    """Run the server, then ignore signals until the process exits."""
    try:
        return await run(settings, listener, open_engine)
    finally:
        ignore_signals(_SIGNALS)


async def run(
    settings: Settings, listener: socket.socket, open_engine: OpenEngine, stop: asyncio.Event | None = None
) -> int:
    """Serve on a bound socket until SIGTERM, SIGINT, `stop` or cancellation.

    Return the exit status. A second signal ends open requests immediately.

    Raises:
        SetUpError: Loading failed, or the Wyoming port cannot be used.
    """
    host = EngineHost(settings, open_engine)
    wyoming = WyomingPort(host, settings.server.wyoming) if settings.server.wyoming else None
    server = Server(server_config(create_app(host), settings, linger_s=_CLOSE_TIMEOUT_S, lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="uvicorn")
    living = asyncio.create_task(_live(host, _url(listener), wyoming), name="engine-life")
    stop, second_signal = stop or asyncio.Event(), asyncio.Event()
    has_signals = threading.current_thread() is threading.main_thread()
    if has_signals:
        stop_on_signals(_SIGNALS, stop, second_signal)
    stopping = asyncio.create_task(stop.wait(), name="signals")
    lag = asyncio.create_task(host.metrics.watch_lag(), name="loop-lag")
    try:
        await asyncio.wait({living, stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
        if wyoming is not None:
            wyoming.close()
        died = living.done() and living.exception() is None
        if died:
            await host.close_sessions(EngineDead(), EngineDead().close_code, timeout_s=FINAL_MESSAGES_TIMEOUT_S)
        elif living.done():
            living.result()
        elif serving.done():
            serving.result()  # Raise the error if uvicorn failed to start.
        else:
            await drain(host, second_signal, log_drain_wait if has_signals else lambda _: None)
        return living.result() if died else Exit.ASKED
    finally:
        for task in (living, stopping, lag):
            task.cancel()
        server.force_exit = second_signal.is_set()
        server.should_exit = True
        try:
            await asyncio.gather(serving, living, stopping, lag, return_exceptions=True)
            if wyoming is not None:
                await wyoming.leave()
        finally:  # The engine must be closed, even if this task is cancelled twice.
            host.close()


async def _live(host: EngineHost, url: str, wyoming: WyomingPort | None) -> Exit:
    """Load the checkpoints, print the URL, and return the reason if the engine fails."""
    await host.load()
    settle()
    if wyoming is not None:
        await wyoming.open()
    print(f"Voicewright runtime ready at {url}", flush=True)
    return await host.watch()


def _url(listener: socket.socket) -> str:
    name, port = listener.getsockname()[:2]
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


async def drain(host: EngineHost, second_signal: asyncio.Event, on_wait: Callable[[float], None]) -> None:
    """Refuse new requests, wait for the open requests, and close all connections.

    Args:
        host: Owner of the engine and of the connections.
        second_signal: Event that ends the wait early. Otherwise the wait ends after the setting `drain_s`.
        on_wait: Function that is called with `drain_s` if speech is still running.
    """
    drain_s = host.settings.server.drain_s
    if host.is_speaking and drain_s:
        on_wait(drain_s)
    host.refuse(Draining())
    for client in tuple(host.sockets):
        client.drain()
    loop = asyncio.get_running_loop()
    end = loop.time() + drain_s
    while host.is_serving and loop.time() < end and not second_signal.is_set():  # noqa: ASYNC110
        await asyncio.sleep(_POLL_INTERVAL_S)
    await host.close_sessions(
        Draining(),
        1001,
        timeout_s=HURRIED_FINAL_MESSAGES_TIMEOUT_S if second_signal.is_set() else FINAL_MESSAGES_TIMEOUT_S,
    )
