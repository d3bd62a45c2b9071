"""The process's one engine and its open sockets: loading, readiness, watching, goodbye. Thread: event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from runtime.errors import EngineDead, GenerationFailed, Loading, SpeechError
from runtime.server.prompt_keeper import PromptKeeper
from runtime.server.socket import SpeechSocket
from runtime.server.speech_engine import SpeechEngine
from runtime.settings import Settings
from runtime.voices.library import Library, library_folder

log = logging.getLogger(__name__)

OpenEngine = Callable[[Settings], SpeechEngine]

_DECODERS = 2  # threads that decode reference audio, for the whole process
_WATCH_S = 0.2  # between looks at the engine; a dead one is to be told to everybody within a second
_CLOSE_S = 5.0  # for the engine to finish its frame


class Host:
    """What the routes share."""

    def __init__(self, settings: Settings, open_engine: OpenEngine) -> None:
        self.settings = settings
        self.sockets: dict[SpeechSocket, asyncio.Task[None] | None] = {}  # and the task that serves each
        self.decoders = ThreadPoolExecutor(_DECODERS, thread_name_prefix="reference")
        self.library = Library(library_folder(settings.server.voices))
        self._prompts: PromptKeeper | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._open_engine = open_engine
        self._engine: SpeechEngine | None = None
        self._problem: SpeechError | None = Loading()

    @property
    def problem(self) -> SpeechError | None:
        """Why nobody can be served now, or None."""
        return EngineDead() if self._problem is None and self.is_dead else self._problem

    @property
    def is_dead(self) -> bool:
        return self._engine is not None and not self._engine.alive

    @property
    def engine(self) -> SpeechEngine:
        """The loaded engine.

        Raises:
            SpeechError: `problem`.
        """
        if self.problem is not None:
            raise self.problem
        if self._engine is None:
            raise Loading
        return self._engine

    async def load(self) -> None:
        """Load the checkpoints off the loop and start the engine.

        Raises:
            SetUpError: they, or the device, cannot be used.
        """
        loop = asyncio.get_running_loop()
        loaded: asyncio.Future[SpeechEngine] = loop.create_future()
        # A thread of its own and not a pool's, because a process that is told to end must not wait for it.
        threading.Thread(target=self._load, args=(loop, loaded), name="loader", daemon=True).start()
        self._engine = await loaded
        self._engine.start()
        self._problem = None
        self._prompts = PromptKeeper(self.library, self._engine, self.decoders)
        self._keeping = asyncio.create_task(self._prompts.run(), name="prompts")

    def wake_prompts(self) -> None:
        """A voice was kept: its prompt is to be made."""
        if self._prompts is not None:
            self._prompts.wake()

    def _load(self, loop: asyncio.AbstractEventLoop, loaded: asyncio.Future[SpeechEngine]) -> None:
        def settle(engine: SpeechEngine | None, failure: Exception | None) -> None:
            if loaded.cancelled():
                return
            if engine is not None:
                loaded.set_result(engine)
            else:
                loaded.set_exception(failure or GenerationFailed())

        try:
            self.library.open()
            engine = self._open_engine(self.settings)
        except Exception as failure:
            loop.call_soon_threadsafe(settle, None, failure)
        else:
            loop.call_soon_threadsafe(settle, engine, None)

    async def watch(self) -> None:
        """Return once the engine has died."""
        while not self.is_dead:  # noqa: ASYNC110  a flag of another thread, there is nothing to await
            await asyncio.sleep(_WATCH_S)

    async def shut(self, error: SpeechError, code: int, *, patience_s: float) -> None:
        """Take nobody in any more, and say goodbye to whoever is there."""
        self._problem = error
        for socket in tuple(self.sockets):
            socket.shut(error, code)
        tasks = {task for task in self.sockets.values() if task is not None}
        if tasks:
            await asyncio.wait(tasks, timeout=patience_s)

    def close(self) -> None:
        """End the engine, the decoders and what is written in the background."""
        if self._keeping is not None:
            self._keeping.cancel()
        self.decoders.shutdown(wait=False, cancel_futures=True)
        if self._engine is not None:
            closing = threading.Thread(target=self._engine.close, name="closer", daemon=True)
            closing.start()
            closing.join(_CLOSE_S)
        self.library.close()
