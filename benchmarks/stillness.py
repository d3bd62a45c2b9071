"""Whether a machine stands still: a process that does nothing but look at the clock.

`python -m benchmarks.stillness` sleeps a millisecond at a time and answers each line on stdin with the longest that it
slept beyond one since the line before, in milliseconds. What an engine does cannot hold it up where a core is free: if
it was late when an engine was, the machine was.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.child import Child, started

NAP_S = 0.001


class Watch:
    """That process, as the one that started it asks it."""

    def __init__(self, child: Child) -> None:
        self._child = child

    @property
    def pid(self) -> int:
        return self._child.pid

    async def longest_ms(self) -> float:
        """Since it was asked last."""
        return float(await self._child.ask(""))


@asynccontextmanager
async def watching() -> AsyncIterator[Watch]:
    """Start one."""
    async with started("benchmarks.stillness", is_asked=True) as child:
        yield Watch(child)


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
