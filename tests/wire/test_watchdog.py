"""Tests for the watchdog: a faulty runtime reports its state and is restarted.

The tests cover the promises E8 and O4 of docs/reliability.md.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from typing import get_args

import httpx
import pytest

from runtime.engine import engine as engine_module
from runtime.exits import Exit
from runtime.server.app import create_app
from runtime.server.engine_host import EngineHost
from runtime.server.health import watchdog
from runtime.settings import EngineSettings, ServerSettings, Settings
from studio.runtimes import supervisor
from studio.runtimes.metrics import starts_page
from studio.runtimes.supervisor import ChildRuntime, RuntimeState
from tests.conftest import FolderOf
from tests.support.ailing_runtime import turn_head
from tests.support.hanging_device import HangingDevice, Hangs
from tests.support.library import MemoryLibrary
from tests.support.runtime_server import RunningServer, running_server
from tests.support.scripted_engine import ScriptedEngine
from tests.support.speech_client import speak_text, talk
from tests.support.timeouts import until

LONG = {"task_type": "custom_voice", "seed": 11, "max_frames": 4000}
WITHIN_S = 60.0


def canaries(server: RunningServer, outcome: str) -> int:
    name = f'voicewright_canaries_total{{outcome="{outcome}"}} '
    return int(sum(float(line.removeprefix(name)) for line in server.metrics().splitlines() if line.startswith(name)))


@pytest.mark.slow
@pytest.mark.logs_errors
@pytest.mark.parametrize("hangs", get_args(Hangs))
async def test_stuck_frame_fails_the_health_check_and_ends_the_process(
    folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hangs: Hangs
) -> None:
    device = HangingDevice(hangs)
    monkeypatch.setattr(engine_module, "open_device", lambda name, *, eager: device)
    with running_server(folder_of("brief", "custom_voice"), server=ServerSettings(frame_s=2.0)) as server:
        began = time.monotonic()
        async with talk(server.socket, **LONG) as session, talk(server.socket) as idle:
            await session.send_text("Speak for a long time.")
            await session.first_audio()
            device.hang()
            error_codes = [(await session.receive_until("error"))["code"], (await idle.receive_until("error"))["code"]]
            assert (error_codes, await session.closed()) == (["engine_dead"] * 2, (1011, "engine_dead"))
        assert time.monotonic() - began > 1.9
        until(lambda: server.exit_status is not None)
        device.go_on()
        assert server.exit_status == Exit.FRAME_OVERDUE
    (said,) = [record.getMessage() for record in caplog.records if record.name == watchdog.__name__]
    assert "runtime/engine/engine.py" in said  # The report contains the stack of each thread.
    assert "long time" not in said


@pytest.mark.logs_errors
async def test_health_fails_if_a_frame_is_overdue() -> None:
    class Stuck(ScriptedEngine):
        def busy_since(self) -> float | None:
            return 1.0

    host = EngineHost(Settings(server=ServerSettings(frame_s=0.4)), lambda *_: Stuck(), MemoryLibrary())
    transport = httpx.ASGITransport(create_app(host))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        await host.load()
        assert (await client.get("/health")).status_code == 200
        assert await host.watch() is Exit.FRAME_OVERDUE
        for path in ("/health", "/ready"):
            reply = await client.get(path)
            assert (reply.status_code, reply.json()["error"]["code"]) == (503, "engine_dead")
    host.close()


@pytest.mark.logs_errors
async def test_slow_machine_gets_a_longer_frame_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "POLL_INTERVAL_S", 0.01)
    looks = 0

    class Slow(ScriptedEngine):
        def busy_since(self) -> float | None:
            """Simulate a step of 15 polls, then a step of 40 polls, and then a step that never ends."""
            nonlocal looks
            looks += 1
            return 1.0 if looks <= 15 else 2.0 if looks <= 55 else 3.0

    host = EngineHost(Settings(server=ServerSettings(frame_s=0.25)), lambda *_: Slow(), MemoryLibrary())
    await host.load()
    assert await host.watch() is Exit.FRAME_OVERDUE
    # The second step had 39 polls, so the third step may have five times as many. The setting alone would allow 25.
    assert looks == 55 + 1 + watchdog.MAX_STEP_RATIO * 39
    host.close()


def test_suspension_of_the_process_makes_no_frame_overdue(folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a suspension, the watchdog checks the old step again before it fails."""
    with running_server(folder_of("brief", "custom_voice"), server=ServerSettings(frame_s=1.0)) as server:
        assert server.engine is not None
        hour_ago, looks = time.monotonic() - 3600, 0

        def busy_since() -> float | None:
            nonlocal looks
            looks += 1
            return hour_ago if looks <= 2 else None

        monkeypatch.setattr(server.engine, "busy_since", busy_since)
        until(lambda: looks > 5)
        assert httpx.get(f"{server.http}/health").status_code == 200


@pytest.mark.slow("voice_design", "base")
@pytest.mark.logs_errors
@pytest.mark.parametrize("mode", ["custom_voice", "voice_design", "base"])
def test_canary_detects_changed_weights(folder_of: FolderOf, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    folder = folder_of("brief", mode)
    with running_server(folder, server=ServerSettings(canary_s=0.1)) as server:
        until(lambda: canaries(server, "same") > 2)
        assert server.engine is not None
        turn_head(server.engine)
        until(lambda: server.exit_status is not None)
        assert server.exit_status == Exit.CANARY_DIFFERS
    (said,) = (record.getMessage() for record in caplog.records if record.levelno == logging.CRITICAL)
    assert said.startswith(f"{folder.name}: ")


@pytest.mark.slow
async def test_canary_takes_no_slot_from_requests_and_is_not_counted(folder_of: FolderOf) -> None:
    """The server has one slot and no queue.

    If the canary used the slot, a client would be refused or would have to wait.
    """
    settings = EngineSettings(threads=1, max_slots=1, max_waiting=0)
    with running_server(
        folder_of("brief", "custom_voice"), engine=settings, server=ServerSettings(canary_s=0.001)
    ) as server:
        until(lambda: canaries(server, "same") > 5)
        assert (server.frames_made(), server.load()["active"]) == (0, 0)
        heard = set()
        for _ in range(20):
            reply = await speak_text(server.socket, "Now.", task_type="custom_voice", max_frames=5, seed=3)
            assert reply.end["type"] == "audio.done", reply.end
            heard.add(bytes(reply.pcm))
        assert len(heard) == 1
        server.wait_until_idle()
        assert server.frames_made() == 100
        assert canaries(server, "different") == 0
        before = canaries(server, "same")
        until(lambda: canaries(server, "same") > before)


def test_disabled_canary_makes_no_requests(folder_of: FolderOf) -> None:
    with running_server(folder_of("brief", "custom_voice"), server=ServerSettings(canary_s=0)) as server:
        assert canaries(server, "same") == 0
        assert httpx.get(f"{server.http}/health").status_code == 200


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "end"),
    [(signal.SIGUSR1, Exit.FRAME_OVERDUE), (signal.SIGUSR2, Exit.CANARY_DIFFERS)],
    ids=["hang", "weight"],
)
async def test_supervisor_restarts_an_unhealthy_runtime_with_the_reason(
    folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, end: Exit
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_BACKOFF_S", 0.1)
    monkeypatch.setenv("VOICEWRIGHT_FRAME_S", "4")
    monkeypatch.setenv("VOICEWRIGHT_CANARY_S", "0.2")
    arguments = ["--model", str(folder_of("brief", "custom_voice")), "--max-slots", "2"]

    async def ready(runtime: ChildRuntime, starts: int) -> int:
        async with asyncio.timeout(WITHIN_S):
            while runtime.status.state is not RuntimeState.READY or runtime.starts < starts:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert runtime.pid is not None
        return runtime.pid

    runtime = ChildRuntime(arguments, command=["tests.support.ailing_runtime", "runtime"])
    supervision = asyncio.create_task(runtime.run())
    try:
        first = await ready(runtime, 1)
        os.kill(first, number)
        assert await ready(runtime, 2) != first
        reason = end.name.lower()
        assert runtime.restarts == {reason: 1}
        assert f'voicewright_runtime_restarts_total{{reason="{reason}"}} 1.0' in starts_page(2, runtime.restarts)
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{runtime.url}/health")).status_code == 200
    finally:
        supervision.cancel()
        await asyncio.gather(supervision, return_exceptions=True)
