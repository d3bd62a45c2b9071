"""Test that jumps of the system date do not affect running speech."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from runtime.settings import Limits, ServerSettings
from tests.conftest import FolderOf
from tests.support.runtime_server import running_server
from tests.support.speech_client import PROTOCOL, Take, Talk, same_sound

HOURS_S = 6 * 3600.0
VOICE: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 60}
KEY = {"Authorization": "Bearer s3cret"}


def test_clock_jump_ends_no_session_ticket_or_rate_window(folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch) -> None:
    date, date_ns, jumps = time.time, time.time_ns, itertools.cycle((HOURS_S, -HOURS_S, 0.0))
    settings = ServerSettings(api_keys="s3cret", requests_per_minute=5)

    async def take(ticket: str, url: str) -> Take:
        async with connect(f"{url}?ticket={ticket}", subprotocols=[PROTOCOL], compression=None) as connection:
            session = Talk(connection)
            await session.receive()
            await session.send("session.config", **VOICE)
            await session.send_text("Good morning, the kettle is on.")
            return await session.receive_take()

    def ticket(url: str) -> str:
        return str(httpx.post(f"{url}/v1/session_ticket", headers=KEY).json()["ticket"])

    with running_server(folder_of("brief", "custom_voice"), server=settings, limits=Limits(session_s=120)) as server:
        whole = asyncio.run(take(ticket(server.http), server.socket))
        before = ticket(server.http)
        # At every call, the clock jumps forwards or backwards by 6 or 12 hours.
        monkeypatch.setattr(time, "time", lambda: date() + next(jumps))
        monkeypatch.setattr(time, "time_ns", lambda: date_ns() + int(next(jumps) * 1e9))
        assert abs(time.time() - time.time()) > HOURS_S - 60
        jumped = asyncio.run(asyncio.wait_for(take(before, server.socket), 60))
        assert jumped.end["type"] == "audio.done"
        assert same_sound(jumped.pcm, whole.pcm)
        # The jumps do not end the one-minute window of the rate limit.
        statuses = [httpx.get(f"{server.http}/v1/models", headers=KEY).status_code for _ in range(5)]
        assert statuses[-1] == 429
        monkeypatch.undo()
