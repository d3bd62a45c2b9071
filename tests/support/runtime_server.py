"""Runtime server with real sockets that runs in the test's process."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from runtime.engine.engine import Engine
from runtime.server.engine_process.client import EngineClient
from runtime.server.launch import listen
from runtime.server.serve import run
from runtime.server.speech_engine import Progress, SpeechEngine
from runtime.settings import EngineSettings, Limits, ServerSettings, Settings
from tests.support.timeouts import TEST_TIMEOUT_S, until

START_S = 240.0
IDLE_S = 30.0
FRAMES = "voicewright_frames_total "
# Number of frames that may still be generated after a disconnect, because its report passes through two threads and a
# socket.
FREED_FRAMES = 16


@dataclass(slots=True)
class RunningServer:
    """Running server with its ports and its engine.

    ``exit_status`` is set when the server has ended. ``engine`` is set if the engine runs in this process, and
    ``engine_pid`` if the engine has its own process.
    """

    port: int
    runtime_port: int = 0  # Port of the runtime, if `port` belongs to a studio.
    engine: Engine | None = None
    engine_pid: int | None = None
    loop: asyncio.AbstractEventLoop | None = None
    stop: asyncio.Event | None = None
    exit_status: int | None = None

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def socket(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/audio/speech/stream"

    def load(self) -> dict[str, Any]:
        return dict(httpx.get(f"{self.own_http}/ready").json())

    def metrics(self) -> str:
        """Return the runtime's metrics in Prometheus format.

        The studio's port does not serve them.
        """
        return httpx.get(f"{self.own_http}/metrics").text

    @property
    def own_http(self) -> str:
        """Return the HTTP URL of the runtime itself, even if ``http`` is the URL of a studio."""
        return f"http://127.0.0.1:{self.runtime_port or self.port}"

    def tell_to_end(self) -> None:
        """Start the shutdown of the server, like SIGTERM."""
        assert self.loop is not None
        assert self.stop is not None
        self.loop.call_soon_threadsafe(self.stop.set)

    def tasks(self) -> set[str]:
        """Return the names of the asyncio tasks that serve WebSockets or HTTP speech requests."""
        assert self.loop is not None
        return {name for task in asyncio.all_tasks(self.loop) if (name := task.get_name()).startswith("speech-")}

    def wait_until_idle(self) -> None:
        """Wait until the engine has no active and no waiting requests.

        Use `frames_until_idle` to measure the delay.

        Raises:
            AssertionError: The engine is still busy after ``IDLE_S`` of this process's processor time.
        """
        start = time.process_time()
        while (load := self.load())["active"] or load["waiting"]:
            assert time.process_time() - start < IDLE_S, load
            time.sleep(0.002)

    def wait_for_no_tasks(self) -> None:
        """Wait until no WebSocket is open and no HTTP speech request is running.

        Raises:
            AssertionError: A request is still served at the timeout of `until`.
        """
        until(lambda: not self.tasks())

    def frames_made(self) -> int:
        """Return the number of frames that the engine has generated."""
        return round(next(float(line.split()[1]) for line in self.metrics().splitlines() if line.startswith(FRAMES)))

    def frames_until_idle(self) -> int:
        """Wait until the engine is idle, and return the number of frames that it generated.

        Unlike a duration, this number does not depend on the load of the machine.
        """
        before = self.frames_made()
        self.wait_until_idle()
        return self.frames_made() - before


@contextmanager
def running_server(
    *models: Path,
    engine: EngineSettings | None = None,
    server: ServerSettings | None = None,
    limits: Limits | None = None,
    apart: bool = False,
) -> Iterator[RunningServer]:
    """Serve checkpoints on a free port, and yield the running server.

    If ``apart`` is true, the engine has its own process.
    """
    settings = Settings(
        models=tuple(map(str, models)),
        engine=engine or EngineSettings(threads=1),
        server=replace(server or ServerSettings(), port=0),
        limits=limits or Limits(queue_s=10 * TEST_TIMEOUT_S),
    )
    if not settings.server.voices:  # Tests must not use the user's folder of voices.
        folder = tempfile.TemporaryDirectory(prefix="voices-", ignore_cleanup_errors=True)
        settings = replace(settings, server=replace(settings.server, voices=folder.name))
    listener = listen(settings.server)
    running = RunningServer(listener.getsockname()[1])
    stop = threading.Event()

    def open_engine(settings: Settings, progress: Progress) -> SpeechEngine:
        if apart:
            client = EngineClient.open(settings, progress)
            running.engine_pid = client.pid
            return client
        running.engine = Engine.open(settings, progress)
        return running.engine

    async def serve() -> None:
        running.loop = asyncio.get_running_loop()
        running.stop = asyncio.Event()
        serving = asyncio.create_task(run(settings, listener, open_engine, running.stop))
        stopping = asyncio.create_task(asyncio.to_thread(stop.wait))
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            running.exit_status = serving.result()
        serving.cancel()
        stop.set()
        await asyncio.gather(serving, stopping, return_exceptions=True)

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="test-server")
    thread.start()
    try:
        _await_ready(running)
        yield running
    finally:
        stop.set()
        thread.join(TEST_TIMEOUT_S)
        assert not thread.is_alive(), "the server did not end"


def _await_ready(running: RunningServer) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        try:
            if httpx.get(f"{running.http}/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise TimeoutError("the server was not ready in time")
