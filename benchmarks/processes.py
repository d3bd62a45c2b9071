"""Tells what the kernel knows of a process and of those that it started."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def of_processes(pid: int) -> dict[str, Any]:
    """Memory (MiB), threads and open files of a process and its children together; nothing where /proc is not."""
    places = [Path(f"/proc/{number}") for number in with_children(pid)]
    if not places:
        return {}
    told = [dict(line.split(":", 1) for line in _lines(place / "status") if ":" in line) for place in places]
    return {
        "rss_mib": round(sum(int(figures["VmRSS"].split()[0]) for figures in told) / 1024, 1),
        "threads": sum(int(figures["Threads"]) for figures in told),
        "files": sum(len(list((place / "fd").iterdir())) for place in places),
    }


def with_children(pid: int) -> list[int]:
    """A process and those that it started, the engine's for one; none where /proc is not."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():
        return []
    children = [int(word) for task in tasks.iterdir() for word in (task / "children").read_text().split()]
    return [pid, *(number for child in children for number in with_children(child))]


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="ascii", errors="replace").splitlines()
