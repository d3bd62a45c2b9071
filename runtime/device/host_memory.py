"""Total and available memory of the machine, and release of unused memory."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


class _Status(ctypes.Structure):
    """MEMORYSTATUSEX structure of the Windows API."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("total", ctypes.c_uint64),
        ("free", ctypes.c_uint64),
        ("rest", ctypes.c_uint64 * 5),
    )


def memory_bytes() -> tuple[int, int]:
    """Return the total and the available memory of the machine or of its container, in bytes.

    The file cache is available, because the system releases it when memory is needed. Some systems, such as macOS, do
    not report the available memory. On them, it is the total memory.
    """
    if sys.platform == "win32":
        return int(_windows().total), int(_windows().free)
    total = free = _pages("SC_PHYS_PAGES")
    with suppress(ValueError):
        free = _pages("SC_AVPHYS_PAGES")
    for line in _lines("/proc/meminfo"):
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            free = 1024 * int(rest.split()[0])
    # The memory limit of a container may be lower than the memory of the machine.
    most, used = (" ".join(_lines(f"/sys/fs/cgroup/memory.{name}")) for name in ("max", "current"))
    if most.isdecimal() and used.isdecimal() and int(most) < total:
        return int(most), min(free, int(most) - int(used) + reclaimable_bytes(_lines("/sys/fs/cgroup/memory.stat")))
    return total, free


def release_unused_memory() -> None:
    """Return freed memory to the operating system.

    The C library glibc does not do this automatically after loading.
    """
    if sys.platform != "win32" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def reclaimable_bytes(stat: Sequence[str]) -> int:
    """Return the bytes of a container's file cache that the system releases on demand.

    Shared memory and files in tmpfs (such as Ray's objects) are subtracted, because they cannot be released.

    Args:
        stat: Lines of ``memory.stat``.
    """
    counts = dict(line.split(maxsplit=1) for line in stat)
    return max(0, int(counts.get("file", 0)) - int(counts.get("shmem", 0)))


def _pages(name: str) -> int:
    return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")


def _windows() -> _Status:
    status = _Status(length=ctypes.sizeof(_Status))
    ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore[attr-defined,unused-ignore]
    return status


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="ascii").splitlines()
    except OSError:
        return []
