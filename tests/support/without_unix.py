"""Run a module as if the operating system were not Unix.

Run: ``python -m tests.support.without_unix MODULE ARGUMENTS…``

Features that Windows' Python lacks are removed before the module is imported: modules, functions and flags of ``os``,
socket options, and signal handlers of the event loop. A replacement for msvcrt locks files with the removed functions.
The tests show that our code does not need these features, not that it works on Windows.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import runpy
import socket
import sys
from asyncio import unix_events  # Import the loop's modules before the patch.
from types import ModuleType
from typing import Any, NoReturn

import torch  # These third-party modules check the platform when they are imported, which must precede the patch.
import uvicorn

OTHERS = (torch, uvicorn)
MODULES = ("fcntl", "resource")
OF_OS = (
    *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_SYNC"),
    *("fork", "forkpty", "nice", "killpg", "setsid", "getpgid", "fchmod", "chown"),
    *("sysconf", "getloadavg", "sched_getaffinity", "statvfs", "pread", "pwrite", "mkfifo", "wait4"),
)
OF_SOCKETS = ("SO_REUSEPORT", "TCP_USER_TIMEOUT")


class Msvcrt(ModuleType):
    """Stand-in for Windows' byte locks by ``fcntl.lockf``."""

    LK_LOCK = 1

    def locking(self, descriptor: int, mode: int, count: int) -> None:
        assert mode == self.LK_LOCK
        fcntl.lockf(descriptor, fcntl.LOCK_EX, count)


def hide() -> None:
    """Remove the features that Windows does not have from this process."""
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    sys.modules["msvcrt"] = Msvcrt("msvcrt")
    kept = {"sysconf": os.sysconf}
    for name in OF_OS:
        if hasattr(os, name):
            delattr(os, name)
    for name in OF_SOCKETS:
        if hasattr(socket, name):
            delattr(socket, name)
    memory = kept["sysconf"]("SC_PHYS_PAGES") * kept["sysconf"]("SC_PAGE_SIZE")

    def unknown(*_: Any) -> NoReturn:
        raise NotImplementedError

    for loop in (asyncio.AbstractEventLoop, unix_events._UnixSelectorEventLoop):
        loop.add_signal_handler = unknown  # type: ignore[method-assign, assignment]
        loop.remove_signal_handler = unknown  # type: ignore[method-assign, assignment]
    from runtime.device import cpu  # In Windows, a system call returns the memory size.

    assert "runtime.shared.system" not in sys.modules
    cpu.total_bytes = cpu.free_bytes = lambda: memory  # type: ignore[attr-defined]


if __name__ == "__main__":
    hide()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
