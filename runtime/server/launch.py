"""Launch of the runtime process, which opens the engine while it imports the server.

This module must import only modules that load fast, because the engine starts to open after these imports.
"""

from __future__ import annotations

import atexit
import os
import socket
import threading
from concurrent.futures import Future

from runtime.errors import SetUpError
from runtime.exits import Exit
from runtime.server import logs
from runtime.server.engine_process.client import EngineClient
from runtime.server.speech_engine import Progress, SpeechEngine
from runtime.settings import ServerSettings, Settings
from runtime.shared import system
from runtime.shared.interpreter import pause_collection, switch_often, yielding
from runtime.shared.port import serving


def launch(settings: Settings) -> int:
    """Run the server until SIGTERM or SIGINT and return the exit status (`Exit`).

    Raises:
        SetUpError: The port, a checkpoint or the device cannot be used.
    """
    pause_collection()
    logs.configure_logging(settings.server)
    switch_often()
    listener = listen(settings.server)
    if not has_own_process(settings):
        # Torch is imported first, because imports hold the GIL, and loading the weights usually does not.
        import runtime.engine.engine  # noqa: F401
    opening = EngineOpener(settings)
    try:
        with yielding():
            from runtime.server.serve import serve
        return serve(settings, listener, opening.wait)
    except Exception as error:
        # The interpreter's normal shutdown would abort while the thread loads the engine.
        atexit.register(os._exit, Exit.BAD_INPUT if isinstance(error, SetUpError) else Exit.FAILED)
        raise


def listen(settings: ServerSettings) -> socket.socket:
    """Bind the server's address and return the listening socket.

    Raises:
        PortInUse, InvalidSetting: The address cannot be bound.
    """
    return serving.listen(settings, settings.host, settings.port, option="--port")


def has_own_process(settings: Settings) -> bool:
    """True if the engine runs in a separate process, which is the default on NVIDIA GPUs."""
    if settings.server.engine_process == "auto":
        return settings.engine.device in ("auto", "cuda") and system.has_nvidia_gpu()
    return settings.server.engine_process == "own"


class EngineOpener:
    """Opener that loads the engine on a separate thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._engine: Future[SpeechEngine] = Future()
        self._step = (0, len(settings.models), "starting")
        self._progress: Progress = lambda loaded, of, step: None
        self._lock = threading.Lock()  # Lock that keeps the steps in order.
        # Unlike a thread pool, a daemon thread does not delay the process's exit.
        threading.Thread(target=self._open, name="engine-opening", daemon=True).start()

    def wait(self, settings: Settings, progress: Progress) -> SpeechEngine:
        """Wait for the engine and return it.

        Args:
            settings: The same settings as for the constructor.
            progress: Called with the current step and with every later step.

        Raises:
            SetUpError: A checkpoint, the device or a setting cannot be used.
        """
        with self._lock:
            self._progress = progress
            progress(*self._step)
        return self._engine.result()

    def _open(self) -> None:
        try:
            self._engine.set_result(_open_engine(self._settings, self._report_progress))
        except Exception as error:
            self._engine.set_exception(error)

    def _report_progress(self, loaded: int, of: int, step: str) -> None:
        with self._lock:
            self._step = loaded, of, step
            self._progress(loaded, of, step)


def _open_engine(settings: Settings, progress: Progress) -> SpeechEngine:
    if has_own_process(settings):
        return EngineClient.open(settings, progress)
    from runtime.engine.engine import Engine

    return Engine.open(settings, progress)
