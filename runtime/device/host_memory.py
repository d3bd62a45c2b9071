"""Total and available memory of the machine, and release of unused memory."""

from __future__ import annotations

import ctypes
import os
import sys


class _Status(ctypes.Structure):
    """MEMORYSTATUSEX structure of the Windows API."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("total", ctypes.c_uint64),
        ("free", ctypes.c_uint64),
        ("rest", ctypes.c_uint64 * 5),
    )


def total_bytes() -> int:
    """Return the machine's total memory in bytes."""
    return _windows().total if sys.platform == "win32" else _pages("SC_PHYS_PAGES")


def free_bytes() -> int:
    """Return the available memory of the machine in bytes.

    Some systems, such as macOS, do not report it. On them, the result is the total memory.
    """
    if sys.platform == "win32":
        return int(_windows().free)
    try:
        return _pages("SC_AVPHYS_PAGES")
    except ValueError:
        return total_bytes()


def release_unused_memory() -> None:
    """Return freed memory to the operating system.

    The C library glibc does not do this automatically after loading.
    """
    if sys.platform != "win32" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def _pages(name: str) -> int:
    return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")


def _windows() -> _Status:
    status = _Status(length=ctypes.sizeof(_Status))
    ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore[attr-defined,unused-ignore]
    return status
