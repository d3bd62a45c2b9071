"""Whether a machine stands still: a process that does nothing but look at the clock.

`python -m benchmarks.stillness` sleeps a millisecond at a time and answers each line on stdin with the longest that it
slept beyond one since the line before, in milliseconds. What an engine does cannot hold it up where a core is free: if
it was late when an engine was, the machine was.
"""

from __future__ import annotations

import asyncio
import select
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

NAP_S = 0.001


class Watch:
    """That process, as the one that started it asks it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def longest_ms(self) -> float:
        """Since it was asked last."""
        reader, writer = self._process.stdout, self._process.stdin
        assert reader is not None
        assert writer is not None
        writer.write(b"\n")
        await writer.drain()
        return float(await reader.readline())


@asynccontextmanager
async def watching() -> AsyncIterator[Watch]:
    """Start one."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.stillness"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield Watch(process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def main() -> None:
    """Until stdin ends."""
    longest, last = 0.0, time.perf_counter()
    while True:
        asked, _, _ = select.select([sys.stdin], [], [], NAP_S)
        # From look to look, so that nothing in between is left out, not even answering.
        longest, last = max(longest, (now := time.perf_counter()) - last - NAP_S), now
        if asked:
            if not sys.stdin.readline():
                return
            print(round(1000 * longest, 1), flush=True)
            longest = 0.0


if __name__ == "__main__":
    main()
