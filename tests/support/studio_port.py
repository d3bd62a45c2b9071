"""Studio server without the page, connected to a runtime server in the same process."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from runtime.settings import Limits, ServerSettings, Settings
from runtime.shared.port.connections.server import Server
from runtime.shared.port.serving import listen
from studio.app import build
from studio.page.startup import StartupPage
from studio.runtimes.given_runtime import GivenRuntime
from studio.server import config
from studio.settings import StoreSettings, StudioSettings, VisitSettings
from studio.store_service import StoreService
from studio.transcribing.plugin import Choice
from studio.transcribing.service import TranscriptionService
from tests.support.runtime_server import RunningServer, running_server
from tests.support.timeouts import TEST_TIMEOUT_S

NOBODY = Choice.of("")


@contextmanager
def studio_port(
    runtime: str,
    server: ServerSettings | None = None,
    limits: Limits | None = None,
    visits: VisitSettings | None = None,
    **store: Any,
) -> Iterator[int]:
    """Run a studio that is connected to a runtime, and yield the studio's port.

    `runtime` is the URL of the runtime.
    """
    runtime_settings = Settings(server=server or ServerSettings(), limits=limits or Limits())
    with tempfile.TemporaryDirectory(prefix="studio-", ignore_cleanup_errors=True) as folder:
        settings = StudioSettings(
            store=StoreSettings(data=folder, **{"visitors": "one", **store}),
            visits=visits or VisitSettings(),
            transcriber=NOBODY,
        )
        store_service = StoreService(settings.store)
        transcription = TranscriptionService(settings.transcriber, runtime_settings.limits)
        listener = listen(runtime_settings.server, settings.host, 0, option="")
        served = Server(
            config(
                build(
                    GivenRuntime(runtime), StartupPage(), store_service, transcription, settings, None, runtime_settings
                ),
                runtime_settings,
            )
        )
        thread = threading.Thread(
            target=asyncio.run, args=(served.serve(sockets=[listener]),), name="test-studio", daemon=True
        )
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            served.should_exit = True
            thread.join(TEST_TIMEOUT_S)
            assert not thread.is_alive(), "the studio did not end"


@contextmanager
def running_server_behind_studio(*models: Path, **settings: object) -> Iterator[RunningServer]:
    """Run a runtime server and a studio that forwards requests to it.

    It yields the server, with the port of the studio.
    """
    with (
        running_server(*models, **settings) as runtime,  # type: ignore[arg-type]
        studio_port(runtime.http, settings.get("server"), settings.get("limits")) as port,  # type: ignore[arg-type]
    ):
        yield replace(runtime, port=port, runtime_port=runtime.port)
