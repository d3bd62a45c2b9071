"""Tests for the supervisor with runtime processes that are killed or stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from studio.runtimes import child_process, given_runtime, supervisor
from studio.runtimes.given_runtime import GivenRuntime
from studio.runtimes.supervisor import ChildRuntime, RuntimeState
from tests.support.processes import runs
from tests.support.timeouts import becomes
from tests.unit.studio.serving import served

ROOT = Path(__file__).resolve().parents[3]
STAND_IN = ["tests.unit.studio.stand_in"]
WITHIN_S = 60.0


@asynccontextmanager
async def running(behaviour: str) -> AsyncIterator[ChildRuntime]:
    runtime = ChildRuntime([], command=[*STAND_IN, behaviour])
    supervision = asyncio.create_task(runtime.run())
    try:
        yield runtime
    finally:
        supervision.cancel()
        await asyncio.gather(supervision, return_exceptions=True)


async def test_child_becomes_ready_and_ends_with_its_supervisor() -> None:
    async with running("ready") as runtime:
        assert (runtime.url, runtime.status.state) == (None, RuntimeState.STARTING)
        await becomes(lambda: runtime.status.state is RuntimeState.READY)
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{runtime.url}/ready")).status_code == 200
        assert runtime.pid is not None
        assert runs(runtime.pid)
        result = runtime.pid
    assert not runs(result)


async def test_killed_child_is_reported_and_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_BACKOFF_S", 0.2)

    async with running("ready") as runtime:
        await becomes(lambda: runtime.status.state is RuntimeState.READY)
        first = runtime.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await becomes(lambda: runtime.status.state is RuntimeState.AWAY)
        assert runtime.url is None
        assert "started again" in runtime.status.sentence
        await becomes(lambda: runtime.status.state is RuntimeState.READY)
        assert runtime.pid != first
        assert runtime.status.starts == 2
        assert runtime.restarts == {"sigkill": 1}


async def test_refused_settings_end_the_supervisor_with_their_status() -> None:
    runtime = ChildRuntime([], command=[*STAND_IN, "refuse"])
    assert await asyncio.wait_for(runtime.run(), WITHIN_S) == 2
    assert runtime.starts == 1


async def test_repeatedly_crashing_child_is_restarted_with_backoff(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Short delays are used instead of a faster clock, because servers of other tests in this process use this clock.
    monkeypatch.setattr(supervisor, "FIRST_BACKOFF_S", 0.05)
    monkeypatch.setattr(supervisor, "MAX_BACKOFF_S", 0.2)

    def waits() -> list[object]:
        own = [record.args for record in caplog.records if record.name == supervisor.__name__]
        return [args[1] for args in own if isinstance(args, tuple) and len(args) == 2]

    with caplog.at_level(logging.WARNING, logger=supervisor.__name__):
        async with running("crash") as runtime:
            await becomes(lambda: len(waits()) >= 4)
            assert runtime.status.state in (RuntimeState.AWAY, RuntimeState.STARTING)
            assert set(runtime.restarts) == {"engine_died"}
    assert waits()[:4] == [0.05, 0.1, 0.2, 0.2]


@pytest.mark.logs_errors
async def test_hung_child_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "HEALTH_TIMEOUT_S", 0.5)
    monkeypatch.setattr(child_process, "WATCH_INTERVAL_S", 0.1)
    monkeypatch.setattr(supervisor, "FIRST_BACKOFF_S", 0.1)

    async with running("ready") as runtime:
        await becomes(lambda: runtime.status.state is RuntimeState.READY)
        hung = runtime.pid
        assert hung is not None
        os.kill(hung, signal.SIGSTOP)
        await becomes(lambda: runtime.pid != hung and runtime.status.state is RuntimeState.READY)
        assert not runs(hung)
        # On a busy machine, the next process may also be too slow and be restarted for the same reason.
        assert set(runtime.restarts) == {supervisor.NO_ANSWER_REASON}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        *((70, "engine_died"), (71, "frame_overdue"), (72, "canary_differs"), (-9, "sigkill"), (-11, "sigsegv")),
        *((0, "asked"), (3, "status_3"), (supervisor.UNKNOWN_STATUS, "status_255")),
    ],
)
def test_every_child_exit_has_a_reason(code: int, reason: str) -> None:
    assert supervisor.reason_of(code) == reason


async def test_child_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "STOP_TIMEOUT_S", 0.3)

    async with running("stubborn") as runtime:
        await becomes(lambda: runtime.status.state is RuntimeState.READY)
        assert runtime.pid is not None
        result = runtime.pid
    assert not runs(result)


PARENT = """
import asyncio, sys
from studio.runtimes.supervisor import ChildRuntime, RuntimeState

async def main():
    runtime = ChildRuntime([], command=["tests.unit.studio.stand_in", "stubborn"])
    supervision = asyncio.create_task(runtime.run())
    while runtime.status.state is not RuntimeState.READY:
        await asyncio.sleep(0.02)
    print(runtime.pid, flush=True)
    await supervision

asyncio.run(main())
"""


def test_child_ends_if_its_parent_was_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert runs(child)
        parent.kill()
    deadline = time.monotonic() + 60
    while runs(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not runs(child)


async def test_external_runtime_is_polled_for_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_runtime, "WATCH_INTERVAL_S", 0.05)
    monkeypatch.setattr(given_runtime, "START_POLL_INTERVAL_S", 0.005)
    code = 503

    async def ready(_: Request) -> Response:
        return Response(status_code=code)

    async with served([Route("/ready", ready)]) as address:
        runtime = GivenRuntime(f"http://{address}")
        asking = asyncio.create_task(runtime.run())
        await becomes(lambda: runtime.status.state is RuntimeState.AWAY)
        code = 200
        await becomes(lambda: runtime.status.state is RuntimeState.READY)
        code = 503
        await becomes(lambda: runtime.status.state is RuntimeState.AWAY)
        assert runtime.url == f"http://{address}", "it may still answer, so the relay goes on trying"
        asking.cancel()


@asynccontextmanager
async def ready(drain_s: float = 0.0) -> AsyncIterator[ChildRuntime]:
    """Run a supervised fake runtime, and yield it when it is ready.

    Its arguments define the behaviour of the process.
    """
    runtime = ChildRuntime(["ready"], command=STAND_IN, drain_s=drain_s)
    supervision = asyncio.create_task(runtime.run())
    try:
        await becomes(lambda: runtime.status.state is RuntimeState.READY)
        yield runtime
        assert not supervision.done()
    finally:
        supervision.cancel()
        await asyncio.gather(supervision, return_exceptions=True)


async def changed(runtime: ChildRuntime, *behaviour: str) -> None:
    runtime.change(behaviour)
    assert runtime.changing
    await becomes(lambda: not runtime.changing)


@pytest.mark.parametrize("behaviour", ["refuse", "crash"])
async def test_failed_change_keeps_the_running_child(behaviour: str) -> None:
    async with ready() as runtime:
        before = (runtime.pid, runtime.url, runtime.args)
        seen = set()
        runtime.change([behaviour])
        while runtime.changing:
            seen.add((runtime.pid, runtime.url, runtime.args))
            assert runtime.status.state is RuntimeState.READY
            await asyncio.sleep(0.02)
        assert seen | {(runtime.pid, runtime.url, runtime.args)} == {before}
        why = "the checkpoint is missing" if behaviour == "refuse" else "it has crashed"
        assert runtime.status.problem == f"The checkpoints could not be loaded: {why}"
        assert runtime.status.change is None
        assert runtime.pid is not None
        assert runs(runtime.pid)


@pytest.mark.parametrize("mode", ["", "base="])
async def test_missing_checkpoint_folder_is_reported_without_starting_a_process(tmp_path: Path, mode: str) -> None:
    async with ready() as runtime:
        nowhere = tmp_path / "nowhere"
        await changed(runtime, "--model", f"{mode}{nowhere}")
        why = f"{nowhere}: the folder is missing. Give a folder or a Hub id (owner/name). [checkpoint_missing]"
        assert runtime.status.problem == f"The checkpoints could not be loaded: {why}"
        (file := tmp_path / "model.safetensors").touch()
        await changed(runtime, "--model", f"{mode}{file}")
        assert runtime.status.problem is not None
        assert f"{file}: a folder of this name is missing. It is a file; give the folder" in runtime.status.problem


@pytest.mark.slow
async def test_each_checkpoint_change_is_tried_and_reported_separately() -> None:
    async with ready() as runtime:
        await changed(runtime, "refuse")
        assert "missing" in str(runtime.status.problem)
        first = runtime.pid
        assert first is not None
        await changed(runtime, "stubborn")
        assert (runtime.status.problem, runtime.args) == (None, ("stubborn",))
        assert runtime.pid != first
        await becomes(lambda: not runs(first))
        second = runtime.pid
        await changed(runtime, "ready")
        assert (runtime.status.problem, runtime.args) == (None, ("ready",))
        assert runtime.pid != second
        await changed(runtime, "crash")
        assert "it has crashed" in str(runtime.status.problem)
        assert runtime.args == ("ready",)


async def test_new_child_is_ready_before_the_old_child_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LEAVE_S", 0.0)

    async with ready(drain_s=2.0) as runtime:
        await changed(runtime, "stubborn")
        earlier, url = runtime.pid, runtime.url
        assert earlier is not None
        await changed(runtime, "ready")
        assert runtime.url != url
        assert runtime.status.state is RuntimeState.READY
        async with httpx.AsyncClient() as client:  # The previous process still has time to finish its requests.
            assert (await client.get(f"{url}/ready")).status_code == 200
        await becomes(lambda: not runs(earlier))


@pytest.mark.parametrize("behaviour", ["large", "large-crash"])
async def test_old_child_is_stopped_first_if_memory_is_short_and_restored_on_failure(
    behaviour: str,
) -> None:
    async with ready() as runtime:
        first = runtime.pid
        runtime.change([behaviour])
        await becomes(lambda: runtime.url is None)
        assert first is not None
        assert not runs(first)
        assert runtime.status.state is RuntimeState.STARTING
        await becomes(lambda: not runtime.changing)
        await becomes(lambda: runtime.status.state is RuntimeState.READY)
        assert runtime.pid != first
        if behaviour == "large":
            assert (runtime.args, runtime.status.problem) == (("large",), None)
        else:
            assert (runtime.args, "it has crashed" in str(runtime.status.problem)) == (("ready",), True)


async def test_child_whose_port_was_taken_is_restarted_on_another_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = child_process._free_port
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports: list[int] = []

        def taken_first() -> int:
            ports.append(free() if len(ports) % 2 else other.getsockname()[1])
            return ports[-1]

        monkeypatch.setattr(child_process, "_free_port", taken_first)

        async with ready() as runtime:
            assert runtime.url == f"http://127.0.0.1:{ports[1]}"
            assert runtime.restarts == {}
            await changed(runtime, "stubborn")
            assert (runtime.status.problem, runtime.args) == (None, ("stubborn",))
            assert runtime.url == f"http://127.0.0.1:{ports[3]}"


async def test_slow_checkpoint_change_can_be_cancelled() -> None:
    async with ready() as runtime:
        before = runtime.pid
        runtime.change(["loading"])
        await becomes(lambda: runtime.status.of == 3)
        assert runtime.status.change == "Model 2 of 3: reading weights."
        assert runtime.status.sentence == "Ready."
        runtime.cancel_change()
        await becomes(lambda: not runtime.changing)
        assert "cancelled" in str(runtime.status.problem)
        assert (runtime.args, runtime.pid) == (("ready",), before)


async def test_child_that_dies_during_a_change_is_restarted() -> None:
    async with ready() as runtime:
        first = runtime.pid
        assert first is not None
        runtime.change(["loading"])
        await becomes(lambda: runtime.status.of == 3)
        os.kill(first, signal.SIGKILL)
        await becomes(lambda: runtime.url is None)
        await becomes(lambda: runtime.url is not None)
        assert (runtime.changing, runtime.args) == (True, ("ready",))
        assert runtime.pid != first


@pytest.mark.logs_errors
async def test_failure_to_start_a_process_does_not_end_the_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_BACKOFF_S", 0.1)

    async with ready() as runtime:
        await changed(runtime, "a\x00b")
        assert "in the studio's log" in str(runtime.status.problem)
        assert runtime.status.state is RuntimeState.READY
        # The settings do not accept half of a surrogate pair, so the test sets the arguments directly.
        runtime.args = ("half a character \ud800",)
        assert runtime.pid is not None
        os.kill(runtime.pid, signal.SIGKILL)
        await becomes(lambda: runtime.status.state is RuntimeState.AWAY)
        await asyncio.sleep(0.3)
        runtime.args = ("ready",)
        await becomes(lambda: runtime.status.state is RuntimeState.READY)
