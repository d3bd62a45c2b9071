"""Main function of the studio, which runs the web server and the runtime."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
from functools import partial
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from starlette.requests import Request

from runtime.settings import Settings
from runtime.shared.certificates import certificates
from runtime.shared.interpreter import settle, switch_often
from runtime.shared.port.connections.server import Server, server_config
from runtime.shared.port.serving import ignore_signals, listen, log_drain_wait, stop_on_signals
from runtime.variables import warn_of_unknown
from studio.app import build
from studio.page.app import page
from studio.page.startup import StartupPage
from studio.relay.draining import Drain
from studio.routes.host import is_host
from studio.routes.real_voices import feature
from studio.runtimes.given_runtime import GivenRuntime
from studio.runtimes.supervisor import ChildRuntime, Runtime, wait_until_responding
from studio.settings import StudioSettings
from studio.store_service import StoreService
from studio.transcribing.service import TranscriptionService
from studio.visitors.sign_in import SignIn

SIGNALS = (signal.SIGINT, signal.SIGTERM)
OPEN_REQUESTS_TIMEOUT_S = 2  # Timeout in seconds of open requests at the end of the process.
FINAL_MESSAGES_TIMEOUT_S = 2.0  # Seconds in which final messages are sent, before open requests are cancelled.
HURRIED_FINAL_MESSAGES_TIMEOUT_S = 0.3  # Seconds in which final messages are sent, after a second signal.
DRAIN_LOG_DELAY_S = 0.5  # Seconds after a signal, before the log reports that speech is still running.


async def serve(settings: StudioSettings) -> int:
    """Run the studio until it receives a signal, and return the exit status.

    Raises:
        PortInUse: Another process uses the port.
        InvalidSetting: A newer version of Voicewright has written the studio's data.
    """
    switch_often()
    if settings.runtime_url:
        warn_of_unknown(os.environ)  # A runtime that the studio starts logs the same warning.
    else:
        # The runtime inherits this environment variable.
        os.environ.setdefault("VOICEWRIGHT_ACCOUNT_KEY", secrets.token_urlsafe(32))
    runtime_settings = Settings.from_env()
    listener = listen(runtime_settings.server, settings.host, settings.port, option="--port or PORT")
    runtime: Runtime = (
        GivenRuntime(settings.runtime_url)
        if settings.runtime_url
        else ChildRuntime(settings.runtime_args, drain_s=runtime_settings.server.drain_s)
    )
    transcription = TranscriptionService(settings.transcriber, runtime_settings.limits)
    sign_in = _sign_in(settings)
    stores = await asyncio.to_thread(
        partial(
            StoreService,
            settings.store,
            member_of=sign_in.member_of if sign_in else None,
            features=partial(_features, transcription, sign_in, settings, runtime),
        )
    )
    startup = StartupPage()
    app = build(runtime, startup, stores, transcription, settings, sign_in, runtime_settings)
    server = Server(config(app, runtime_settings))
    # The start of a child cannot be cancelled, so the following statements must not fail.
    supervision = asyncio.create_task(runtime.run())
    stop, hurry = asyncio.Event(), asyncio.Event()
    stop_on_signals(SIGNALS, stop, hurry)
    told_to_end = asyncio.create_task(stop.wait())
    answering = asyncio.create_task(server.serve(sockets=[listener]))
    serving_page = asyncio.create_task(startup.serve_page(partial(page, app)))
    announcing = asyncio.create_task(_announce(startup, listener))
    await asyncio.wait({supervision, answering, serving_page, told_to_end}, return_when=asyncio.FIRST_COMPLETED)
    for task in (answering, serving_page):
        if task.done():
            task.result()
    code = supervision.result() if supervision.done() else 0
    if told_to_end.done():
        await _drain(app.state.drain, runtime, runtime_settings.server.drain_s, hurry)
    server.should_exit = True
    helpers = (supervision, serving_page, announcing, told_to_end)
    for helper in helpers:
        helper.cancel()
    # If a socket is closed twice, uvicorn may fail. The process ends anyway.
    await asyncio.gather(answering, *helpers, return_exceptions=True)
    ignore_signals(SIGNALS)
    return code


def _features(
    transcription: TranscriptionService,
    sign_in: SignIn | None,
    settings: StudioSettings,
    runtime: Runtime,
    request: Request,
) -> dict[str, Any]:
    """Return the studio's optional features for a request.

    Only the host gets instructions for enabling further features.
    """
    return {
        "transcribe": transcription.feature(is_host=is_host(request, settings)),
        "oauth": None if sign_in is None else sign_in.feature(),
        "real_voices": feature(request, runtime, settings, request.app.state.downloads),
    }


def _sign_in(settings: StudioSettings) -> SignIn | None:
    """Return the sign-in, or None if visitors share a history or no provider is configured.

    Raises:
        InvalidSetting: Sign-in is required but no provider is set, or the provider's settings are invalid.
    """
    wanted = settings.visits.sign_in
    if wanted == "off" or not settings.store.has_separate_histories():
        return None
    is_set = bool(os.environ.get("OPENID_PROVIDER_URL"))
    return SignIn(os.environ, required=wanted == "required") if is_set or wanted == "required" else None


async def _drain(drain: Drain, runtime: Runtime, drain_s: float, hurry: asyncio.Event) -> None:
    """Refuse new speech, and wait for current speech until a timeout or a second signal."""
    draining = asyncio.gather(
        runtime.drain(), drain.drain_requests(drain_s, ends_idle=isinstance(runtime, GivenRuntime))
    )
    hurrying = asyncio.create_task(hurry.wait())
    logging_wait = asyncio.create_task(_log_wait(drain, drain_s))
    either: set[asyncio.Future[Any]] = {draining, hurrying}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    for task in (*either, logging_wait):
        task.cancel()
    await asyncio.gather(*either, logging_wait, return_exceptions=True)
    await drain.close_all(HURRIED_FINAL_MESSAGES_TIMEOUT_S if hurry.is_set() else FINAL_MESSAGES_TIMEOUT_S)


async def _log_wait(drain: Drain, drain_s: float) -> None:
    """Print a message if speech is still running (the runtime's message is not shown)."""
    await asyncio.sleep(DRAIN_LOG_DELAY_S)
    if drain.has_open_requests:
        log_drain_wait(drain_s)


def config(app: FastAPI, runtime_settings: Settings) -> uvicorn.Config:
    """Return the uvicorn configuration of the studio's port (the same as the runtime's)."""
    return server_config(app, runtime_settings, linger_s=OPEN_REQUESTS_TIMEOUT_S)


async def _announce(startup: StartupPage, listener: socket.socket) -> None:
    """Print the URL of the page when the page and the runtime respond."""
    await startup.opened.wait()
    host, port = listener.getsockname()[:2]
    url = f"http://{'localhost' if host in {'0.0.0.0', '::'} else host}:{port}"  # noqa: S104
    async with httpx.AsyncClient(verify=certificates(), trust_env=False) as client:
        await wait_until_responding(client, f"{url}/ready")
        await wait_until_responding(client, f"{url}/")
    settle()
    print(f"Voicewright is ready at {url}", flush=True)
