"""Plug-ins for recognition and alignment: packages, language codes and child process."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar, TypeVarTuple

from runtime.shared.system import be_polite

CODES = {
    **{"chinese": "zh", "english": "en", "japanese": "ja", "korean": "ko", "german": "de"},
    **{"french": "fr", "russian": "ru", "portuguese": "pt", "spanish": "es", "italian": "it"},
}
PLUGIN_NICE = 10  # Live speech has priority.
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)

Value = TypeVar("Value")
Given = TypeVarTuple("Given")


def is_installed(package: str) -> bool:
    """True if a package is installed, by its distribution name.

    Nothing is imported.
    """
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def code_of(language: str | None) -> str | None:
    """Return the code of a language, given its name or code in any case.

    None is returned for other values, which mean any language.
    """
    word = (language or "").lower()
    return CODES.get(word, word if word in CODES.values() else None)


class WorkerBusyError(Exception):
    """Refusal of a call, because too many wait."""


class PluginWorker:
    """Process that runs plug-in calls, one at a time.

    Thread: event loop.

    The first call starts the process, and a later call starts it again if it has ended. Memory leaks and crashes of a
    plug-in do not affect the studio.
    """

    def __init__(self, max_waiting: int) -> None:
        """Create the worker.

        Args:
            max_waiting: Maximum number of calls, including the one that runs.
        """
        self._max_waiting = max_waiting
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._pid: int | None = None

    @contextmanager
    def place(self) -> Iterator[None]:
        """Context manager that reserves a place among the waiting calls.

        It is entered before the data is prepared.

        Raises:
            WorkerBusyError: All places are taken.
        """
        if self._waiting >= self._max_waiting:
            raise WorkerBusyError
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def call(self, timeout_s: float | None, function: Callable[[*Given], Value], *args: *Given) -> Value:
        """Run a function of a module in the process, and return its result.

        The caller has a `place`.

        Raises:
            TimeoutError: It took longer than `timeout_s`, and its process was killed.
            BrokenExecutor: Its process has ended.
            Exception: The function's own.
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
        """End the process, even during a call."""
        if self._pool is None:
            return
        if self._pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, KILL)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._pid = None


def _begin() -> None:
    """Prepare the process.

    It has a lower priority than live speech, and ends with its parent, also during a call.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent handles SIGINT and ends this process.
    be_polite(PLUGIN_NICE)
    os.dup2(2, 1)  # Plug-ins may print, but stdout belongs to the parent.
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
