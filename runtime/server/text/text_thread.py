"""Worker thread for long text processing that yields to the engine and the event loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from runtime.shared.interpreter import TimeShare, yielding

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")

_MAX_CORE_SHARE = 0.25
_BURST_S = 0.02
# Maximum pause in seconds after a long job, such as a large dictionary. It is limited so that the next job starts soon.
_MAX_PAUSE_S = 0.1

_thread = threading.local()


class TextThread(ThreadPoolExecutor):
    """Executor with one thread that does not slow down the engine and the event loop.

    The thread often releases the GIL and pauses after long work. While a job runs, other threads wait at most
    `YIELDING_INTERVAL_S` for the GIL.
    """

    def __init__(self) -> None:
        super().__init__(1, thread_name_prefix="text", initializer=_begin)

    def submit(
        self, work: Callable[Parameters, Value], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Value]:
        return super().submit(_yielding, partial(work, *args, **kwargs))


def sleep_if_throttled() -> None:
    """Sleep if the calling `TextThread` has used too much CPU time.

    Call this function often during long work. On other threads, the function does nothing.
    """
    account: _Account | None = getattr(_thread, "account", None)
    if account is not None:
        time.sleep(account.charge())


class _Account:
    def __init__(self) -> None:
        self._share = TimeShare(_MAX_CORE_SHARE, _BURST_S, _MAX_PAUSE_S)
        self._used_s = time.thread_time()

    def charge(self) -> float:
        """Count the CPU time since the last call and return the required pause in seconds."""
        before_s, self._used_s = self._used_s, time.thread_time()
        return self._share.charge(self._used_s - before_s, time.monotonic())


def _begin() -> None:
    _thread.account = _Account()


def _yielding(work: Callable[[], Value]) -> Value:
    sleep_if_throttled()
    with yielding():
        return work()
