"""State of processes, read from the kernel."""

from __future__ import annotations

from pathlib import Path


def runs(pid: int) -> bool:
    """True if the process exists and has not ended.

    A zombie counts as ended.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
