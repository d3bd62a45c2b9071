"""Command that runs a Python module as if the operating system were not Unix.

Command line: ``python -m tests.support.without_unix MODULE ARGUMENTS…``

Before the module is imported, features that Python on Windows lacks are removed: modules, functions and flags of
``os``, socket options and signal handlers of the event loop. A replacement for msvcrt locks files with the removed
functions. The tests show that our code does not need these features, but not that the code works on Windows.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import runpy
import socket
import sys
from asyncio import unix_events  # Import the event loop's modules before the patch.
from types import ModuleType
from typing import Any, NoReturn

import torch  # These third-party modules check the platform at import, so they are imported before the patch.
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
    """Replacement for the msvcrt module of Windows that locks bytes with ``fcntl.lockf``."""

    LK_LOCK = 1

    def locking(self, descriptor: int, mode: int, count: int) -> None:
        assert mode == self.LK_LOCK
        fcntl.lockf(descriptor, fcntl.LOCK_EX, count)


def hide() -> None:
    """Remove all features that Windows lacks from this Python process."""
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
    # Functions of this module are replaced, because Windows needs a system call for the memory size.
    from runtime.device import cpu

    assert "runtime.shared.system" not in sys.modules
    cpu.memory_bytes = lambda: (memory, memory)  # type: ignore[attr-defined]


if __name__ == "__main__":
    hide()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
