"""Asks the kernel about processes."""

from __future__ import annotations

from pathlib import Path


def runs(pid: int) -> bool:
    """Whether there is such a process that has not ended, whether or not its parent has asked for its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
