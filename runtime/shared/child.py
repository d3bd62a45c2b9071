"""Child processes that read untrusted input, or that end together with their parent.

The module is also a launcher. Example: ``python -m runtime.shared.child runtime.cli runtime``. Standard input is a pipe
from the parent. The kernel closes the pipe when the parent ends, also after kill -9. This works on every system and
needs neither signal handlers nor pids.
"""

from __future__ import annotations

import asyncio
import os
import runpy
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import ceil
from pathlib import Path

POLL_INTERVAL_S = 0.25  # Interval in seconds at which the running time of a child process is counted.
PIECE_BYTES = 2**18
# Working directory of the child processes. It allows them to import this package.
PACKAGE_ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **{name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ},
    "OPENBLAS_NUM_THREADS": "1",  # One thread is used, because one thread per core would exceed the memory limit.
}


async def run_child(
    command: Sequence[str], pieces: Iterable[bytes], *, timeout_s: float, max_output_bytes: int
) -> tuple[list[bytes], int]:
    """Run a process that reads untrusted input from stdin.

    The process is killed after `timeout_s` seconds, if its output exceeds `max_output_bytes`, and if the call is
    cancelled.

    Args:
        pieces: Pieces of the input, written to stdin in this order.

    Returns:
        Pieces of the output, and the exit status of the process, which is never 0 if the output exceeds the limit.
    """
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    child = await asyncio.create_subprocess_exec(
        *command, cwd=PACKAGE_ROOT, env=ENVIRONMENT, stdin=pipe, stdout=pipe, stderr=null
    )
    assert child.stdin is not None
    assert child.stdout is not None
    tasks = [
        asyncio.create_task(_kill_after(child.kill, timeout_s)),
        asyncio.create_task(_write_input(child.stdin, pieces)),
    ]
    output: list[bytes] = []
    free_bytes = max_output_bytes
    try:
        while free_bytes >= 0 and (piece := await child.stdout.read(PIECE_BYTES)):
            output.append(piece)
            free_bytes -= len(piece)
        if free_bytes >= 0:
            await child.wait()
    finally:
        for task in tasks:
            task.cancel()
        with suppress(ProcessLookupError):
            child.kill()
        # `wait` returns only after the end of the output.
        while await child.stdout.read(PIECE_BYTES):
            pass
        status = await child.wait()
    # A child with too much output may end with status 0 before it is killed.
    return output, status or int(free_bytes < 0)


def run_child_blocking(
    command: Sequence[str], *pieces: bytes, timeout_s: float, max_output_bytes: int
) -> tuple[bytes, int]:
    """Call `run_child`, and return its output as one piece.

    Thread: worker thread.
    """
    output, status = asyncio.run(run_child(command, pieces, timeout_s=timeout_s, max_output_bytes=max_output_bytes))
    return b"".join(output), status


async def _kill_after(kill: Callable[[], None], timeout_s: float) -> None:
    """Kill the child after `timeout_s` seconds.

    Time is counted in polls, so that a suspended machine does not count.
    """
    for _ in range(ceil(timeout_s / POLL_INTERVAL_S)):
        await asyncio.sleep(min(POLL_INTERVAL_S, timeout_s))
    with suppress(ProcessLookupError):
        kill()


async def _write_input(stdin: asyncio.StreamWriter, pieces: Iterable[bytes]) -> None:
    with suppress(ConnectionError):  # The child has ended, or has refused the file without reading all of it.
        for piece in pieces:
            stdin.write(piece)
            await stdin.drain()
        stdin.close()


def end_with_parent(wait_for_parent: Callable[[], object]) -> None:
    """Start a thread that ends this process when `wait_for_parent` returns."""

    def end() -> None:
        wait_for_parent()
        os._exit(1)  # This process can exit immediately, because the parent has ended and no data must be saved.

    threading.Thread(target=end, name="end-with-parent", daemon=True).start()


def _read_to_end() -> None:
    while os.read(0, 1024):
        pass


def main() -> None:
    """Run the module in the first argument, and exit when standard input is closed."""
    end_with_parent(_read_to_end)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=False)


if __name__ == "__main__":
    main()
