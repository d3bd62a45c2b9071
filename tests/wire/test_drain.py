"""Tests for SIGTERM: running requests may finish, and new requests are refused."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from runtime.settings import EngineSettings, ServerSettings
from tests.conftest import FolderOf
from tests.support.runtime_server import RunningServer, running_server
from tests.support.speech_client import Take, Talk, talk
from tests.support.timeouts import until
from tests.wire.test_process import start

VOICE: dict[str, Any] = {"task_type": "custom_voice", "seed": 11}
LONG: dict[str, Any] = {**VOICE, "max_frames": 4000}


def draining(folder_of: FolderOf, scenario: Callable[[RunningServer], Awaitable[None]]) -> int | None:
    """Run a scenario against a server that is drained, and wait for the server's end.

    Returns:
        The server's exit status.
    """
    engine = EngineSettings(threads=1, max_slots=4)
    settings = ServerSettings(drain_s=240)
    with running_server(folder_of("brief", "custom_voice"), engine=engine, server=settings) as server:
        asyncio.run(scenario(server))
        until(lambda: server.exit_status is not None)
        return server.exit_status


async def until_draining(url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as client:
        while (await client.get("/ready")).status_code == 200:  # noqa: ASYNC110  flag of another process
            await asyncio.sleep(0.01)


def test_running_replies_finish_and_idle_sessions_are_closed(folder_of: FolderOf) -> None:
    async def scenario(server: RunningServer) -> None:
        async def speak() -> tuple[Take, int, tuple[int, str]]:
            async with talk(server.socket, **VOICE, max_frames=60) as session:
                await session.send_text("Let me finish.")
                heard = await session.first_audio()
                speaking.release()
                take = await session.receive_take()
                return take, len(heard), await session.closed()

        speaking = asyncio.Semaphore(0)
        replies = [asyncio.create_task(speak()) for _ in range(3)]
        async with talk(server.socket) as idle:
            for _ in replies:
                await speaking.acquire()
            server.tell_to_end()
            assert (await idle.receive_until("error"))["code"] == "draining"
            assert await idle.closed() == (1001, "draining")
        async with httpx.AsyncClient(base_url=server.http) as client:
            ready = await client.get("/ready")
            assert (ready.status_code, ready.json()["status"]) == (503, "draining")
            assert (await client.get("/health")).status_code == 200
        async with talk(server.socket) as late:
            assert late.created["code"] == "draining"
            assert await late.closed() == (1013, "draining")
        for take, heard, closed in await asyncio.gather(*replies):
            assert (take.end["type"], take.end["metrics"]["frames"]) == ("audio.done", 60)
            assert heard + len(take.pcm) == take.end["total_bytes"]
            assert closed == (1001, "draining")

    assert draining(folder_of, scenario) == 0


@pytest.mark.slow
def test_session_with_running_speech_may_not_start_another_context_during_a_drain(folder_of: FolderOf) -> None:
    async def scenario(server: RunningServer) -> None:
        async with talk(server.socket, **VOICE, max_frames=80, frames="labelled") as session:
            await session.send("input.text", text="Half of a ", context_id="a")
            await sounding_or_nothing(session)
            server.tell_to_end()
            await until_draining(server.http)
            await session.send_text("No more.", context_id="b")
            error = await session.receive_until("error")
            assert (error["code"], error["context_id"], error["retryable"]) == ("draining", "b", True)
            await session.send("input.text", text="sentence.", context_id="a")
            await session.send("input.done", context_id="a")
            assert (await session.receive_until("audio.done"))["context_id"] == "a"
            assert await session.closed() == (1001, "draining")

    async def sounding_or_nothing(session: Talk) -> None:
        """Send a ping and wait for its pong, so that the engine has received all earlier text."""
        await session.send("ping", t=1)
        await session.receive_until("pong")

    assert draining(folder_of, scenario) == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_second_signal_ends_immediately(folder_of: FolderOf, number: signal.Signals) -> None:
    child = start("--model", str(folder_of("brief", "custom_voice")), "--port", "0", VOICEWRIGHT_DRAIN_S="3600")
    assert child.stdout is not None
    try:
        url = child.stdout.readline().rpartition(" ")[2].strip()

        async with talk(url.replace("http", "ws") + "/v1/audio/speech/stream", **LONG) as session:
            await session.send_text("Speak for a long time.")
            await session.first_audio()
            child.send_signal(number)
            await until_draining(url)
            child.send_signal(number)
            closed = await session.closed()
            while child.poll() is None:  # Without the second signal, the process would wait up to an hour.
                child.send_signal(number)
                await asyncio.sleep(0.02)
            assert (child.returncode, closed) == (0, (1001, "draining"))
    finally:
        child.kill()
        assert "Traceback" not in child.communicate()[1]
