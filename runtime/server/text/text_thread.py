"""Worker thread for long text processing that yields to the engine and the event loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from runtime.shared.interpreter import yielding

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")

_MAX_CORE_SHARE = 0.25
_BURST_S = 0.02
# Maximum pause after a long job, such as a large dictionary, so that the next job starts soon.
_MAX_REST_S = 0.1

_thread = threading.local()


class TextThread(ThreadPoolExecutor):
    """Executor with one thread that releases the GIL early and pauses after long work.

    While a job runs, other threads wait at most `YIELDING_INTERVAL_S` for the GIL.
    """

    def __init__(self) -> None:
        super().__init__(1, thread_name_prefix="text", initializer=_begin)

    def submit(
        self, work: Callable[Parameters, Value], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Value]:
        return super().submit(_yielding, partial(work, *args, **kwargs))


def rest() -> None:
    """Sleep if the calling `TextThread` has used too much CPU time.

    Call this function often during long work. On other threads, the function does nothing.
    """
    account: _Account | None = getattr(_thread, "account", None)
    if account is not None:
        time.sleep(account.charge())


class _Account:
    def __init__(self) -> None:
        self._debt_s = 0.0
        self._used_s = time.thread_time()
        self._charged_at = time.monotonic()

    def charge(self) -> float:
        """Count the CPU time since the last call and return the required pause in seconds."""
        used_s, now = time.thread_time(), time.monotonic()
        paid_s = _MAX_CORE_SHARE * (now - self._charged_at)
        self._debt_s = max(0.0, self._debt_s - paid_s) + used_s - self._used_s
        self._used_s, self._charged_at = used_s, now
        return min(_MAX_REST_S, max(0.0, self._debt_s - _BURST_S) / _MAX_CORE_SHARE)


def _begin() -> None:
    _thread.account = _Account()


def _yielding(work: Callable[[], Value]) -> Value:
    rest()
    with yielding():
        return work()
