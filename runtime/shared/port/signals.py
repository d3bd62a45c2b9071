"""Tells a loop of the signals that end the process, also where the system's loop takes none (Windows)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress


def on_signals(numbers: Sequence[signal.Signals], told: Callable[[], None]) -> None:
    """Have the running loop call ``told`` for each signal that comes. On the main thread."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        try:
            loop.add_signal_handler(number, told)
        except NotImplementedError:  # Windows' loop
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(told))


def stop_on_signals(numbers: Sequence[signal.Signals], stop: asyncio.Event, hurry: asyncio.Event) -> None:
    """Let the first signal set ``stop``, and the next ``hurry``. On the main thread."""
    on_signals(numbers, lambda: (hurry if stop.is_set() else stop).set())


def tell_of_wait(limit_s: float) -> None:
    """Tell the operator, whose signal has come, why the process goes on, for how long at most, and what ends it."""
    with suppress(OSError, ValueError):  # nobody may read it any more: a pipe's other end had Ctrl-C too
        print(f"Finishing what is spoken, {limit_s:g} s at most; Ctrl-C again ends at once.", flush=True)


def ignore_signals(numbers: Sequence[signal.Signals]) -> None:
    """Have signals do nothing from now on; the process is ending already. On the main thread."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
