"""The supervisor on real processes: they are killed, stopped and orphaned."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from studio import supervisor
from studio.supervisor import ChildRuntime, GivenRuntime, State
from tests.unit.studio.serving import served

ROOT = Path(__file__).resolve().parents[3]
STAND_IN = ["tests.unit.studio.stand_in"]
WITHIN_S = 10.0


@asynccontextmanager
async def running(behaviour: str) -> AsyncIterator[ChildRuntime]:
    runtime = ChildRuntime([], command=[*STAND_IN, behaviour])
    supervision = asyncio.create_task(runtime.run())
    try:
        yield runtime
    finally:
        supervision.cancel()
        await asyncio.gather(supervision, return_exceptions=True)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not holds():  # noqa: ASYNC110 - a process changes it
            await asyncio.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_child_becomes_ready_and_ends_with_its_supervision() -> None:
    async def run() -> int:
        async with running("ready") as runtime:
            assert (runtime.url, runtime.status.state) == (None, State.STARTING)
            await until(lambda: runtime.status.state is State.READY)
            async with httpx.AsyncClient() as client:
                assert (await client.get(f"{runtime.url}/ready")).status_code == 200
            assert runtime.pid is not None
            assert alive(runtime.pid)
            return runtime.pid

    assert not alive(asyncio.run(run()))


def test_a_killed_child_is_said_to_be_away_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_BACKOFF_S", 0.2)

    async def run() -> None:
        async with running("ready") as runtime:
            await until(lambda: runtime.status.state is State.READY)
            first = runtime.pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            await until(lambda: runtime.status.state is State.AWAY)
            assert runtime.url is None
            assert "started again" in runtime.status.sentence
            await until(lambda: runtime.status.state is State.READY)
            assert runtime.pid != first
            assert runtime.status.starts == 2

    asyncio.run(run())


def test_refused_settings_end_the_supervision_with_their_status() -> None:
    runtime = ChildRuntime([], command=[*STAND_IN, "refuse"])
    assert asyncio.run(asyncio.wait_for(runtime.run(), WITHIN_S)) == 2
    assert runtime.starts == 1


def test_a_child_that_crashes_at_once_is_tried_ever_more_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    real_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if seconds >= supervisor.FIRST_BACKOFF_S:
            waits.append(seconds)
        await real_sleep(0)

    monkeypatch.setattr(supervisor, "MAX_BACKOFF_S", 2.0)

    async def run() -> None:
        async with running("crash") as runtime:
            monkeypatch.setattr(supervisor.asyncio, "sleep", sleep)
            async with asyncio.timeout(WITHIN_S):
                while len(waits) < 4:
                    await real_sleep(0.02)
            assert runtime.status.state is State.AWAY
            monkeypatch.undo()

    asyncio.run(run())
    assert waits[:4] == [0.5, 1.0, 2.0, 2.0]


@pytest.mark.logs_errors
def test_a_hung_child_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "HEALTH_S", 0.2)
    monkeypatch.setattr(supervisor, "WATCH_S", 0.1)
    monkeypatch.setattr(supervisor, "FIRST_BACKOFF_S", 0.1)

    async def run() -> None:
        async with running("ready") as runtime:
            await until(lambda: runtime.status.state is State.READY)
            hung = runtime.pid
            assert hung is not None
            os.kill(hung, signal.SIGSTOP)
            await until(lambda: runtime.pid != hung and runtime.status.state is State.READY)
            assert not alive(hung)

    asyncio.run(run())


def test_a_child_that_will_not_go_is_made_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "STOP_S", 0.3)

    async def run() -> int:
        async with running("stubborn") as runtime:
            await until(lambda: runtime.status.state is State.READY)
            assert runtime.pid is not None
            return runtime.pid

    assert not alive(asyncio.run(run()))


PARENT = """
import asyncio, sys
from studio.supervisor import ChildRuntime, State

async def main():
    runtime = ChildRuntime([], command=["tests.unit.studio.stand_in", "stubborn"])
    supervision = asyncio.create_task(runtime.run())
    while runtime.status.state is not State.READY:
        await asyncio.sleep(0.02)
    print(runtime.pid, flush=True)
    await supervision

asyncio.run(main())
"""


def test_a_child_does_not_outlive_a_parent_that_was_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.kill()
    deadline = time.monotonic() + 3
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(child)


def test_a_given_runtime_is_asked_how_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "WATCH_S", 0.05)
    monkeypatch.setattr(supervisor, "POLL_S", 0.005)
    code = 503

    async def ready(_: Request) -> Response:
        return Response(status_code=code)

    async def run() -> None:
        nonlocal code
        async with served([Route("/ready", ready)]) as address:
            runtime = GivenRuntime(f"http://{address}")
            asking = asyncio.create_task(runtime.run())
            await until(lambda: runtime.status.state is State.AWAY)
            code = 200
            await until(lambda: runtime.status.state is State.READY)
            code = 503
            await until(lambda: runtime.status.state is State.AWAY)
            assert runtime.url == f"http://{address}", "it may still answer, so the relay goes on trying"
            asking.cancel()

    asyncio.run(run())


def test_other_arguments_are_tried_and_the_earlier_ones_come_back_where_they_fail() -> None:
    async def run() -> None:
        runtime = ChildRuntime(["ready"], command=STAND_IN)
        supervision = asyncio.create_task(runtime.run())
        await until(lambda: runtime.status.state is State.READY)
        first = runtime.pid
        runtime.change(["refuse"])
        assert (runtime.changing, runtime.status.state) == (True, State.STARTING)
        await until(lambda: runtime.status.problem is not None)
        assert "the checkpoint is missing" in str(runtime.status.problem)
        await until(lambda: runtime.status.state is State.READY)
        assert (runtime.args, runtime.changing) == (("ready",), False)
        assert runtime.status.problem is not None  # still to be read
        assert runtime.pid != first
        runtime.change(["ready"])
        await until(lambda: runtime.status.state is State.READY)
        assert runtime.status.problem is None
        supervision.cancel()
        await asyncio.gather(supervision, return_exceptions=True)

    asyncio.run(run())


def test_a_change_that_takes_too_long_can_be_given_up() -> None:
    async def run() -> None:
        runtime = ChildRuntime(["ready"], command=STAND_IN)
        supervision = asyncio.create_task(runtime.run())
        await until(lambda: runtime.status.state is State.READY)
        runtime.change(["loading"])
        await until(lambda: runtime.status.of == 3)
        assert runtime.status.sentence == "Model 2 of 3: reading weights."
        runtime.give_up()
        await until(lambda: runtime.status.state is State.READY)
        assert "given up" in str(runtime.status.problem)
        assert runtime.args == ("ready",)
        supervision.cancel()
        await asyncio.gather(supervision, return_exceptions=True)

    asyncio.run(run())
