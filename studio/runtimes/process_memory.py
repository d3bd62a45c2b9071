"""Measurement of free memory, and of the memory of the studio and its child processes.

It is supported only on Linux.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path

PROC = Path("/proc")
_KIB = re.compile(r"^(?P<name>Pss|MemAvailable):\s+(?P<kib>\d+) kB", re.MULTILINE)


def own_memory() -> dict[str, int] | None:
    """Return the memory of this process and its children, and the available memory, in bytes.

    The result is None if the memory cannot be measured. Memory that several processes share is divided among them
    (proportional set size). The call takes a few milliseconds.
    """
    try:
        machine = _kib(PROC / "meminfo")
        own = sum(_memory_of(process) for process in _tree(os.getpid()))
    except OSError:
        return None
    return {"own": own * 1024, "available": machine["MemAvailable"] * 1024}


def _tree(root: int) -> list[int]:
    """Return the pids of a process and its descendants."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for folder in PROC.iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # The process has ended.
                continue
            children[int(fields[1])].append(int(folder.name))
    found = [root]
    for process in found:  # The loop also visits the pids that are appended.
        found += children[process]
    return found


def _memory_of(process: int) -> int:
    try:
        return _kib(PROC / str(process) / "smaps_rollup").get("Pss", 0)
    except OSError:
        if process == os.getpid():
            raise
        return 0  # The process has ended.


def _kib(file: Path) -> dict[str, int]:
    return {found["name"]: int(found["kib"]) for found in _KIB.finditer(file.read_text())}
