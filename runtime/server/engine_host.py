"""Owner of the engine and of all client connections in one server process.

The host loads the engine, reports if it is ready, detects failures and shuts it down.

Thread: event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from runtime.errors import Draining, EngineDead, GenerationFailed, Loading, SpeechError
from runtime.exits import Exit
from runtime.request import Broken, Finished
from runtime.server.caller import DailyUsage
from runtime.server.health.watchdog import Watchdog
from runtime.server.logs import RequestLog, log_end
from runtime.server.metrics import ServerMetrics
from runtime.server.speech_engine import Progress, SpeechEngine
from runtime.server.text.text_thread import TextThread
from runtime.server.voices.prompt_worker import PromptWorker
from runtime.server.voices.speakers import Speaker, Speakers
from runtime.server.voices.uploads import fetcher_for
from runtime.settings import Settings
from runtime.voices.library import Library, library_folder
from runtime.voices.owner_libraries import OwnerLibraries, OwnerLibrary

log = logging.getLogger(__name__)
Value = TypeVar("Value")

OpenEngine = Callable[[Settings, Progress], SpeechEngine]

OWNER_HEADER = "x-voice-owner"  # Header with the owner of private voices. Shared voices are visible to all owners.
_DECODER_THREADS = max(2, min(8, (os.cpu_count() or 1) // 2))  # Number of threads that decode reference audio.
# Number of threads that encode audio. They are separate from the threads for decoding, because a long recording takes a
# second to decode.
_ENCODERS = 2
_CLOSE_TIMEOUT_S = 5.0  # Timeout in seconds for the engine to finish its current frame.


@dataclass(frozen=True, slots=True)
class LoadingStep:
    """Progress of loading the checkpoints.

    `loaded` is the number of loaded checkpoints, `of` is the number of all checkpoints, and `step` describes the
    current step.
    """

    loaded: int = 0
    of: int = 0
    step: str = "starting"


class OpenSocket(Protocol):
    """Interface of a client connection that the host can drain and close."""

    @property
    def is_speaking(self) -> bool: ...

    def close_with(self, error: SpeechError, code: int) -> None: ...

    def drain(self) -> None: ...


class EngineHost:
    """Owner of the engine, the voice libraries, the metrics and all open connections."""

    def __init__(self, settings: Settings, open_engine: OpenEngine, library: Library | None = None) -> None:
        self.settings = settings
        self.library = (
            Library(library_folder(settings.server.voices, settings.server.data)) if library is None else library
        )
        server = settings.server
        self.owner_libraries = OwnerLibraries(self.library, server.owned_voices, server.owned_pronunciations)
        # Open sockets, each with the task that serves it.
        self.sockets: dict[OpenSocket, asyncio.Task[None] | None] = {}
        self.ports: dict[str, str] = {}  # Address of each port other than HTTP, by protocol.
        self.replies: set[asyncio.Task[Any]] = set()  # Tasks of running HTTP responses.
        self.decoders = ThreadPoolExecutor(_DECODER_THREADS, thread_name_prefix="reference")
        self.texts = TextThread()
        self.encoders = ThreadPoolExecutor(_ENCODERS, thread_name_prefix="encoder")
        self.fetcher = fetcher_for(settings.server.reference_addresses)
        self.metrics = ServerMetrics()
        self._speakers = Speakers(server.elsewhere_file)
        self.spending = DailyUsage()
        self.progress = LoadingStep(of=len(settings.models))
        self._prompts: PromptWorker | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._requests = 0  # Number of HTTP requests in progress.
        self._ends: WeakSet[SpeechError] = WeakSet()  # Errors of ended requests that the metrics already include.
        self._open_engine = open_engine
        self._engine: SpeechEngine | None = None
        self._watchdog: Watchdog | None = None
        self._problem: SpeechError | None = Loading()

    @property
    def problem(self) -> SpeechError | None:
        """Return the error for new requests, or None if requests are accepted."""
        return EngineDead() if self._problem is None and self.is_dead else self._problem

    @property
    def status(self) -> str:
        """Return the status for /ready: "ready", "loading", "draining" or "dead"."""
        match self.problem:
            case None:
                return "ready"
            case Loading():
                return "loading"
            case Draining():
                return "draining"
            case _:
                return "dead"

    @property
    def is_dead(self) -> bool:
        """True if the engine thread has ended or the watchdog has detected a failure."""
        given_up = self._watchdog is not None and self._watchdog.verdict is not None
        return given_up or (self._engine is not None and not self._engine.alive)

    @property
    def _hangs(self) -> bool:
        return self._watchdog is not None and self._watchdog.verdict is Exit.FRAME_OVERDUE

    @property
    def is_serving(self) -> bool:
        """True if a client has an open socket or waits for a response."""
        return bool(self.sockets) or self._requests > 0

    @property
    def is_speaking(self) -> bool:
        """True if speech is being generated for an HTTP response or a socket."""
        return bool(self.replies) or any(socket.is_speaking for socket in self.sockets)

    @property
    def engine(self) -> SpeechEngine:
        """Return the loaded engine.

        Raises:
            SpeechError: The engine cannot accept requests; see `problem`.
        """
        if self.problem is not None:
            raise self.problem
        if self._engine is None:
            raise Loading
        return self._engine

    def speakers(self) -> dict[str, Speaker]:
        """Return the speakers of the local checkpoints and of other replicas, by name."""
        return self._speakers.by_name(self.engine.cards if self.problem is None else ())

    def owner_library(self, headers: Mapping[str, str]) -> OwnerLibrary:
        """Return the library of the owner named in `headers`, including the shared voices."""
        return self.owner_libraries.library_of(headers.get(OWNER_HEADER, ""))

    @contextmanager
    def count_open_request(self) -> Iterator[None]:
        """Count an HTTP request as open inside the `with` block.

        A shutdown waits for open requests.
        """
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    def record_ended_request(self, request_log: RequestLog, event: Finished | Broken) -> None:
        """Log an ended request and count its outcome in the metrics."""
        if isinstance(event, Broken):
            self._ends.add(event.error)
        self.metrics.record_ended_request(request_log, event)
        log_end(request_log, event)

    def count_refusal(self, error: SpeechError) -> None:
        """Count a refused request in the metrics.

        If `ended` has already counted the error, the error is not counted again.
        """
        if error not in self._ends:
            self.metrics.count_refusal(error.code)

    async def load(self) -> None:
        """Load the checkpoints on another thread and start the engine.

        Raises:
            SetUpError: The checkpoints or the device cannot be used.
        """
        loop = asyncio.get_running_loop()
        loaded: asyncio.Future[SpeechEngine] = loop.create_future()
        # Unlike a thread pool, a daemon thread does not delay the process's exit.
        threading.Thread(target=self._load, args=(loop, loaded), name="loader", daemon=True).start()
        self._engine = await loaded
        self._engine.start()
        self._watchdog = Watchdog(self._engine, self.settings.server, self.metrics)
        await self._watchdog.start()
        if isinstance(self._problem, Loading):  # The host may already be draining.
            self._problem = None
        self._prompts = PromptWorker(self.owner_libraries.libraries, self._engine, self.decoders)
        self._keeping = asyncio.create_task(self._prompts.run(), name="prompts")

    def wake_prompts(self) -> None:
        """Wake the background task that computes voice prompts for new stored voices."""
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

        def report_progress(done: int, of: int, step: str) -> None:
            self.progress = LoadingStep(done, of, step)

        try:
            self.library.open()
            engine = self._open_engine(self.settings, report_progress)
        except Exception as failure:
            loop.call_soon_threadsafe(settle, None, failure)
        else:
            loop.call_soon_threadsafe(settle, engine, None)

    async def watch(self) -> Exit:
        """Wait until the engine fails, and return the reason as an exit status.

        Call `load` first.
        """
        assert self._watchdog is not None, "the engine is there"
        return await self._watchdog.watch()

    async def run_in_worker(self, work: Callable[..., Value], *arguments: Any) -> Value:
        """Run `work(*arguments)` on a worker thread and return the result."""
        return await asyncio.get_running_loop().run_in_executor(self.decoders, work, *arguments)

    def refuse(self, error: SpeechError) -> None:
        """Refuse all new requests with `error`."""
        self._problem = error

    async def close_sessions(self, error: SpeechError, code: int, *, timeout_s: float) -> None:
        """Refuse new requests, close all sessions, and cancel HTTP responses after `timeout_s`."""
        self.refuse(error)
        for socket in tuple(self.sockets):
            socket.close_with(error, code)
        tasks = {task for task in self.sockets.values() if task is not None} | self.replies
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
        for reply in self.replies:
            reply.cancel()

    def close(self) -> None:
        """Stop the engine, the watchdog and all worker threads, and close the libraries."""
        if self._keeping is not None:
            self._keeping.cancel()
        if self._watchdog is not None:
            self._watchdog.close()
        self.decoders.shutdown(wait=False, cancel_futures=True)
        self.encoders.shutdown(wait=False, cancel_futures=True)
        self.texts.shutdown(wait=False, cancel_futures=True)
        if self._engine is not None:
            self._engine.close(0 if self._hangs else _CLOSE_TIMEOUT_S)
        self.owner_libraries.close()
