"""A process that looks at the clock says how long it was held up."""

from __future__ import annotations

import asyncio
import os
import signal

from benchmarks.stillness import Watch, watching

HELD_S = 0.3


async def _held_up(watch: Watch, pid: int) -> float:
    await watch.longest_ms()  # it has started
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(HELD_S)
    os.kill(pid, signal.SIGCONT)
    await asyncio.sleep(0.05)
    return await watch.longest_ms()


def test_it_tells_how_long_it_stood_still() -> None:
    async def heard() -> float:
        async with watching() as watch:
            return await _held_up(watch, watch.pid)

    assert asyncio.run(heard()) >= 1000 * HELD_S - 50
