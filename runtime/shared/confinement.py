"""Limits a process of ours that reads what strangers send, before it reads any of it."""

from __future__ import annotations

import resource


def confine(memory_bytes: int, cpu_s: int) -> None:
    """Give up memory, time, files and dumps. A system without one of the limits goes without it.

    Args:
        memory_bytes: of address space.
        cpu_s: seconds of the processor.
    """
    wanted = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    for limit, value in wanted.items():
        try:
            resource.setrlimit(limit, (value, value))
        except (ValueError, OSError):  # macOS refuses RLIMIT_AS
            continue
