"""Functions that find the runtime processes of a cluster in Linux's /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def runtimes(command: int) -> dict[int, int]:
    """Return the process IDs of a cluster's runtime processes, keyed by port.

    ``command`` is the process ID of ``voicewright cluster``, which is an ancestor of Ray's processes and the runtimes.
    Runtimes of other clusters and of studios are ignored.
    """
    parents: dict[int, int] = {}
    started: list[int] = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if "runtime.shared.child" in (path / "cmdline").read_bytes().decode().split("\0"):
                started.append(int(path.name))
    return {
        port: process
        for process in started
        if _descends(process, command, parents)
        for port in _listening(Path("/proc", str(process)))
    }


def environment_of(process: int) -> dict[str, str]:
    """Return the initial environment variables of the process with this ID."""
    words = Path("/proc", str(process), "environ").read_text(encoding="utf-8").split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


def _descends(process: int, ancestor: int, parents: dict[int, int]) -> bool:
    while process in parents and process != ancestor:
        process = parents[process]
    return process == ancestor


def _listening(process: Path) -> list[int]:
    try:
        sockets = {os.readlink(item) for item in (process / "fd").iterdir() if os.path.islink(item)}
        rows = (process / "net/tcp").read_text().splitlines()[1:]
    except OSError:  # The process has ended in the meantime.
        return []
    return [
        int(row.split()[1].rpartition(":")[2], 16)
        for row in rows
        if row.split()[3] == "0A" and f"socket:[{row.split()[9]}]" in sockets
    ]
