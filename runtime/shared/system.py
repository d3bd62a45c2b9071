"""Differences between Linux, macOS and Windows: locks, process limits, pipes, file flags, cards.

What a system lacks is left out, with a line in the log where that loses anything. None of it has run on Windows.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from typing import Any

log = logging.getLogger(__name__)


_fcntl: Any = None
_msvcrt: Any = None
_resource: Any = None
with suppress(ImportError):
    import fcntl

    _fcntl = fcntl
with suppress(ImportError):
    import msvcrt

    _msvcrt = msvcrt
with suppress(ImportError):
    import resource

    _resource = resource

_NVIDIA = "/dev/nvidiactl"
_HELD = 36  # EDEADLOCK as Windows numbers it: another process still has the lock

NEW_GROUP = 0x200 if sys.platform == "win32" else 0  # Keeps Ctrl-C from the child on systems without sessions.


def flags(*names: str) -> int:
    """Flags of ``os.open`` by their names; those that the system does not know are none."""
    found = 0
    for name in names:
        found |= getattr(os, name, 0)
    return found


def lock(descriptor: int) -> None:
    """Wait for the lock of an open file, which ends when the file is closed.

    Raises:
        OSError: the system gives none.
    """
    if _fcntl is not None:
        _fcntl.flock(descriptor, _fcntl.LOCK_EX)
    elif _msvcrt is not None:
        while True:  # Retried for ten seconds.
            try:
                os.lseek(descriptor, 0, os.SEEK_SET)
                _msvcrt.locking(descriptor, _msvcrt.LK_LOCK, 1)
            except OSError as error:
                if error.errno != _HELD:
                    raise
            else:
                return
    else:
        raise OSError("this system has no locks for files")


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Have the names in a folder written to the disk; a system whose folders cannot be opened does that itself."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | flags("O_CLOEXEC"))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def limit_process(**limits: int) -> None:
    """Give up what a process may take, by the names that the system's limits have; what it lacks or refuses stays."""
    if _resource is None:
        log.warning("this system sets no limits to a process: %s are left as they are", ", ".join(limits))
        return
    for name, value in limits.items():
        try:
            _resource.setrlimit(getattr(_resource, name), (value, value))
        except (AttributeError, ValueError, OSError):  # macOS refuses RLIMIT_AS.
            continue


def most_files(*, at_most: bool = False) -> int | None:
    """Files and sockets that this process may have open, or may let itself have; None: as many as it likes."""
    if _resource is None:
        return None
    files: int = _resource.getrlimit(_resource.RLIMIT_NOFILE)[at_most]
    return None if files == _resource.RLIM_INFINITY else files


def be_polite(steps: int) -> None:
    """Let other processes come first, where the system knows such steps."""
    if hasattr(os, "nice"):
        with suppress(OSError):
            os.nice(steps)


def widen_pipe(descriptor: int, size: int) -> None:
    """Have a pipe hold so many bytes, where the system lets a program say that (Linux) and this user may."""
    with suppress(AttributeError, OSError):
        _fcntl.fcntl(descriptor, _fcntl.F_SETPIPE_SZ, size)


def has_nvidia_card() -> bool:
    """True if NVIDIA's driver is installed, by a file of it on Linux; importing torch would take seconds."""
    return os.path.exists(_NVIDIA)


def lingers_not() -> bytes:
    """Return the value of SO_LINGER that drops a connection at once: two ints, or on Windows two shorts."""
    size = 2 if sys.platform == "win32" else 4
    return (1).to_bytes(size, sys.byteorder) + (0).to_bytes(size, sys.byteorder)


def confine(memory_bytes: int, cpu_s: int) -> None:
    """Give up memory, time, files and dumps. A system without one of the limits goes without it.

    Args:
        memory_bytes: of address space.
        cpu_s: seconds of the processor.
    """
    limit_process(RLIMIT_AS=memory_bytes, RLIMIT_CPU=cpu_s, RLIMIT_FSIZE=0, RLIMIT_CORE=0)
