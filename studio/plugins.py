"""Helpers for speech recognition and alignment plug-ins.

They run a plug-in in a child process, convert language codes and check if a package is installed.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar, TypeVarTuple

from runtime.shared.child import end_with_parent
from runtime.shared.system import lower_priority

CODES = {
    **{"chinese": "zh", "english": "en", "japanese": "ja", "korean": "ko", "german": "de"},
    **{"french": "fr", "russian": "ru", "portuguese": "pt", "spanish": "es", "italian": "it"},
}
PLUGIN_NICE = 10  # Niceness of the child process, which gives live speech priority.
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)

Value = TypeVar("Value")
Given = TypeVarTuple("Given")


def is_installed(package: str) -> bool:
    """Return True if a distribution package is installed (it is not imported)."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def code_of(language: str | None) -> str | None:
    """Return the code of a language, given its name or code.

    The result is None if the language is unknown. Upper and lower case are ignored.
    """
    word = (language or "").lower()
    return CODES.get(word, word if word in CODES.values() else None)


class WorkerBusyError(Exception):
    """Error for a call that was rejected because the maximum number of calls is waiting."""


class PluginWorker:
    """Child process that runs plug-in functions, one call at a time.

    The first call starts the process, and a later call starts it again if it has ended. Memory leaks and crashes of a
    plug-in do not affect the studio. Thread: event loop.
    """

    def __init__(self, max_waiting: int) -> None:
        """Create a worker without starting its process.

        Args:
            max_waiting: Maximum number of waiting calls, including the running call.
        """
        self._max_waiting = max_waiting
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._pid: int | None = None

    @contextmanager
    def place(self) -> Iterator[None]:
        """Reserve a place for one call in the queue of the child process.

        Raises:
            WorkerBusyError: The maximum number of calls is waiting.
        """
        if self._waiting >= self._max_waiting:
            raise WorkerBusyError
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def call(self, timeout_s: float | None, function: Callable[[*Given], Value], *args: *Given) -> Value:
        """Run a module-level function in the child process, and return its result.

        The caller must have entered the context manager `place`.

        Raises:
            TimeoutError: The call took longer than `timeout_s`, and the process was killed.
            BrokenExecutor: The child process has ended.
            Exception: Any exception that `function` raises.
        """
        loop = asyncio.get_running_loop()
        async with self._turn:
            try:
                async with asyncio.timeout(timeout_s):
                    if self._pool is None:
                        # A forked process would inherit sockets and locks.
                        spawn = multiprocessing.get_context("spawn")
                        self._pool = ProcessPoolExecutor(1, mp_context=spawn, initializer=_begin)
                        self._pid = await loop.run_in_executor(self._pool, os.getpid)
                    return await loop.run_in_executor(self._pool, function, *args)
            except (TimeoutError, BrokenExecutor, asyncio.CancelledError):
                self.close()
                raise

    def close(self) -> None:
        """Kill the child process, even if a call is running."""
        if self._pool is None:
            return
        if self._pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, KILL)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._pid = None


def _begin() -> None:
    """Set up the child process: low priority, and exit when the parent process exits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent process handles SIGINT and ends this process.
    lower_priority(PLUGIN_NICE)
    os.dup2(2, 1)  # Plug-ins may print text, but stdout belongs to the parent process.
    if (parent := multiprocessing.parent_process()) is not None:
        end_with_parent(parent.join)
