"""Functions that differ between Linux, macOS and Windows, such as file locks and limits.

Features that a system does not have are skipped and, if necessary, logged. The code for Windows has not been tested.
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
_EDEADLOCK = 36  # Error number of Windows if another process still holds the lock.

# Flag for systems without sessions. It prevents Ctrl-C from reaching the child process.
NEW_GROUP = 0x200 if sys.platform == "win32" else 0


def flags(*names: str) -> int:
    """Combine the ``os.open`` flags with these names.

    A flag that the system does not have counts as 0.
    """
    found = 0
    for name in names:
        found |= getattr(os, name, 0)
    return found


def lock(descriptor: int) -> None:
    """Lock an open file, and wait if another process holds the lock.

    Closing the file releases the lock.

    Raises:
        OSError: The system refuses the lock.
    """
    if _fcntl is not None:
        _fcntl.flock(descriptor, _fcntl.LOCK_EX)
    elif _msvcrt is not None:
        while True:  # On Windows, LK_LOCK raises an error after 10 s, so the call is repeated.
            try:
                os.lseek(descriptor, 0, os.SEEK_SET)
                _msvcrt.locking(descriptor, _msvcrt.LK_LOCK, 1)
            except OSError as error:
                if error.errno != _EDEADLOCK:
                    raise
            else:
                return
    else:
        raise OSError("this system has no locks for files")


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Flush a folder's entries to disk.

    Systems that cannot open folders do not need this.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | flags("O_CLOEXEC"))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def limit_process(**limits: int) -> None:
    """Set resource limits of this process by name.

    Limits that are unsupported or refused are skipped.
    """
    if _resource is None:
        log.warning("this system does not support process limits: %s are not set", ", ".join(limits))
        return
    for name, value in limits.items():
        try:
            _resource.setrlimit(getattr(_resource, name), (value, value))
        except (AttributeError, ValueError, OSError):  # RLIMIT_AS is refused on macOS.
            continue


def max_files(*, at_most: bool = False) -> int | None:
    """Return this process's limit of open files, or None if it is unlimited.

    Args:
        at_most: True to return the hard limit instead of the soft limit.
    """
    if _resource is None:
        return None
    files: int = _resource.getrlimit(_resource.RLIMIT_NOFILE)[at_most]
    return None if files == _resource.RLIM_INFINITY else files


def lower_priority(steps: int) -> None:
    """Lower the priority of this process by `steps` if the system supports it."""
    if hasattr(os, "nice"):
        with suppress(OSError):
            os.nice(steps)


def set_pipe_size(descriptor: int, size: int) -> None:
    """Set the buffer size of a pipe in bytes, if the system and the user's limits allow it.

    Only Linux supports this.
    """
    with suppress(AttributeError, OSError):
        _fcntl.fcntl(descriptor, _fcntl.F_SETPIPE_SZ, size)


def has_nvidia_gpu() -> bool:
    """True if NVIDIA's driver is installed.

    The check looks for a device file, because importing torch takes seconds.
    """
    return os.path.exists(_NVIDIA)


def reset_on_close() -> bytes:
    """Return an SO_LINGER value that resets a connection when it is closed.

    The value has two ints, or two shorts on Windows.
    """
    size = 2 if sys.platform == "win32" else 4
    return (1).to_bytes(size, sys.byteorder) + (0).to_bytes(size, sys.byteorder)


def confine(memory_bytes: int, cpu_s: int) -> None:
    """Limit memory, CPU time, files and core dumps of this process if the system supports it.

    Args:
        memory_bytes: Maximum address space in bytes.
        cpu_s: Maximum CPU time in seconds.
    """
    limit_process(RLIMIT_AS=memory_bytes, RLIMIT_CPU=cpu_s, RLIMIT_FSIZE=0, RLIMIT_CORE=0)
