"""Runtime processes on local ports, and measurement of their memory and open files."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

SETTLE_TIMEOUT_S = 5.0  # Maximum time in seconds until a runtime without requests has freed all slots.


@dataclass(frozen=True, slots=True)
class BenchRuntime:
    """Running runtime process, with its URL and its pid."""

    url: str
    pid: int

    @property
    def stream(self) -> str:
        """Return the URL of the runtime's WebSocket route."""
        return self.url.replace("http", "ws", 1) + "/v1/audio/speech/stream"


@asynccontextmanager
async def runtime_process(
    arguments: list[str], environment: Mapping[str, str] | None = None
) -> AsyncIterator[BenchRuntime]:
    """Start a runtime process, wait until it is ready, and terminate it on exit.

    The runtime listens on a free port.

    Raises:
        SystemExit: The process did not start. Its error message is on stderr.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "runtime.cli", "runtime", "--port", "0", *arguments),
        stdout=subprocess.PIPE,
        env={**os.environ, "VOICEWRIGHT_HOST": "127.0.0.1", **(environment or {})},
    )
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        if " at http" not in line:
            raise SystemExit("the runtime did not start; its error is above")
        yield BenchRuntime(line.rpartition(" at ")[2].strip(), process.pid)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def busy_slots(url: str) -> int:
    """Wait until the runtime is idle, and return the number of remaining requests.

    The result is 0, unless the runtime is still busy after `SETTLE_TIMEOUT_S` seconds. Requests that use a slot and
    requests that wait for a slot are counted.
    """
    async with httpx.AsyncClient(trust_env=False) as http:
        for _ in range(round(SETTLE_TIMEOUT_S / 0.05)):
            load = (await http.get(f"{url}/ready")).json()
            if not (busy := int(load.get("active", 0) + load.get("waiting", 0))):
                break
            await asyncio.sleep(0.05)
    return busy


def process_usage(pid: int) -> dict[str, Any]:
    """Return the memory in MiB, the threads and the open files of a process and its children.

    The result is empty on systems without /proc.
    """
    folders = [Path(f"/proc/{number}") for number in with_child_processes(pid)]
    if not folders:
        return {}
    lines = [(folder / "status").read_text("ascii", "replace").splitlines() for folder in folders]
    status = [dict(line.split(":", 1) for line in of_process if ":" in line) for of_process in lines]
    return {
        "rss_mib": round(sum(int(fields["VmRSS"].split()[0]) for fields in status) / 1024, 1),
        "threads": sum(int(fields["Threads"]) for fields in status),
        "files": sum(len(list((folder / "fd").iterdir())) for folder in folders),
    }


def with_child_processes(pid: int) -> list[int]:
    """Return the pids of a process and its descendants, or an empty list without /proc."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():
        return []
    children = [int(word) for task in tasks.iterdir() for word in (task / "children").read_text().split()]
    return [pid, *(number for child in children for number in with_child_processes(child))]
