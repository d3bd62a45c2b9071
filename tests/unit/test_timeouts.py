"""Tests for event loops whose timeouts exclude the time in which the process is suspended."""

from __future__ import annotations

import asyncio
import threading
import time

import httpx
import pytest

from tests.support.timeouts import TEST_TIMEOUT_S, PatientLoop, until

HOUR_S = 3600.0


class Clock:
    """Fake clock that runs normally and can jump ahead, as after a suspension."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s

    def jump(self) -> None:
        self.ahead_s += HOUR_S


async def test_tests_use_a_special_event_loop_and_longer_httpx_timeouts() -> None:
    assert type(asyncio.get_running_loop()) is PatientLoop
    assert httpx.Client().timeout == httpx.Timeout(TEST_TIMEOUT_S)
    assert httpx.Client(timeout=5.0).timeout == httpx.Timeout(5.0)


@pytest.mark.parametrize("where", ["waiting", "busy"])
def test_suspension_of_the_process_advances_the_loop_clock_only_slightly(where: str) -> None:
    clock = Clock()

    async def waited_s() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        if where == "busy":
            loop.call_later(0.05, clock.jump)
        else:
            threading.Timer(0.05, clock.jump).start()
        async with asyncio.timeout(60):
            while not clock.ahead_s:  # noqa: ASYNC110  another thread sets it
                await asyncio.sleep(0.2)
        return loop.time() - began

    with asyncio.Runner(loop_factory=lambda: PatientLoop(clock)) as runner:
        assert 0.04 < runner.run(waited_s()) < 60


async def test_loop_clock_advances_while_the_process_is_running() -> None:
    loop = asyncio.get_running_loop()
    began, passed = loop.time(), time.monotonic()
    for _ in range(3):
        await asyncio.sleep(0.3)
    time.sleep(0.3)  # noqa: ASYNC251  a slow callback
    counted_s, passed_s = loop.time() - began, time.monotonic() - passed
    assert 1.15 < counted_s <= passed_s + 0.01


async def test_timeouts_expire_in_a_running_process() -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 0.4)


def test_wait_for_a_missing_event_times_out() -> None:
    looks = 0

    def never() -> bool:
        nonlocal looks
        looks += 1
        return False

    with pytest.raises(AssertionError, match="not within"):
        until(never, 0.05)
    assert looks == 5
    assert until(lambda: [1]) == [1]
