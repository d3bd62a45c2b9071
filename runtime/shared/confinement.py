"""Limits a process of ours that reads what strangers send, before it reads any of it."""

from __future__ import annotations

from runtime.shared.system import limit_process


def confine(memory_bytes: int, cpu_s: int) -> None:
    """Give up memory, time, files and dumps. A system without one of the limits goes without it.

    Args:
        memory_bytes: of address space.
        cpu_s: seconds of the processor.
    """
    limit_process(RLIMIT_AS=memory_bytes, RLIMIT_CPU=cpu_s, RLIMIT_FSIZE=0, RLIMIT_CORE=0)
