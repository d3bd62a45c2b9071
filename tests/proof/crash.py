"""Measurement of the recovery after the runtime is killed while it streams audio."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass

import httpx
from websockets.exceptions import ConnectionClosed

from tests.support.app import App
from tests.support.speech_client import Talk, speak_text, talk

STREAMS = 10
QUERY_TIMEOUT_S = 0.02


@dataclass(frozen=True, slots=True)
class CrashReport:
    """Durations of recovery steps, in seconds since the runtime was killed."""

    notified_s: tuple[float, ...]  # Seconds from the crash until the client of each stream was notified.
    ready_s: float  # Seconds from the crash until /ready returned 200 again.
    spoken_s: float  # Seconds from the crash until a new stream was complete.

    @property
    def figure(self) -> str:
        return (
            f"kill -9 under {len(self.notified_s)} streams: each notified in {1000 * max(self.notified_s):.0f} ms, "
            f"ready again in {self.ready_s:.1f} s, heard {self.spoken_s - self.ready_s:.2f} s later"
        )


async def crash(app: App) -> CrashReport:
    """Kill the runtime of an app during ten speech streams, and return the recovery times."""
    url = f"ws://127.0.0.1:{app.port}/v1/audio/speech/stream"
    speaking, kill = asyncio.Semaphore(0), asyncio.Event()

    async def stream() -> float:
        async with talk(url, task_type="custom_voice", max_frames=4000) as session:
            await session.send_text("A sentence that will not come to its end.")
            while not isinstance(await session.receive(), bytes):
                pass
            speaking.release()
            await _end(session)
            assert kill.is_set(), "it ended before"
            return time.monotonic()

    streams = [asyncio.create_task(stream()) for _ in range(STREAMS)]
    for _ in streams:
        await speaking.acquire()
    kill.set()
    killed = time.monotonic()
    os.kill(app.runtime_pid, signal.SIGKILL)
    notified_s = tuple(at - killed for at in await asyncio.gather(*streams))
    async with httpx.AsyncClient(base_url=app.url, trust_env=False) as client:
        while not await _is_ready(client):  # noqa: ASYNC110 - another process
            await asyncio.sleep(QUERY_TIMEOUT_S)
    ready = time.monotonic() - killed
    take = await speak_text(url, "Now.", task_type="custom_voice", max_frames=2)
    assert take.end["type"] == "audio.done"
    return CrashReport(notified_s, ready, time.monotonic() - killed)


async def _end(session: Talk) -> None:
    """Receive messages until the connection ends or an error message arrives."""
    try:
        while isinstance(message := await session.receive(), bytes) or message["type"] != "error":
            pass
    except ConnectionClosed:
        return


async def _is_ready(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/ready")).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
