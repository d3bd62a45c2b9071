"""Finds the runtime processes of a cluster on this machine, by Linux's /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def runtimes() -> dict[int, int]:
    """Runtime processes of clusters on this machine: process ids by the port that each listens on."""
    found: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (path / "cmdline").read_bytes().decode().split("\0")
            if "runtime.shared.child" in words:
                for port in _listening(path):
                    found[port] = int(path.name)
    return found


def _listening(process: Path) -> list[int]:
    sockets = {os.readlink(item) for item in (process / "fd").iterdir() if os.path.islink(item)}
    rows = (process / "net/tcp").read_text().splitlines()[1:]
    return [
        int(row.split()[1].rpartition(":")[2], 16)
        for row in rows
        if row.split()[3] == "0A" and f"socket:[{row.split()[9]}]" in sockets
    ]
