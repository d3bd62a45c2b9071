"""Tests for fair scheduling: a client with many requests does not block other clients."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest

from runtime.settings import EngineSettings, ServerSettings
from runtime.shared.port.limits import ACCOUNT_HEADER
from tests.conftest import FolderOf
from tests.support.runtime_server import running_server
from tests.support.speech_client import Talk, talk
from tests.support.studio_port import studio_port
from tests.support.timeouts import until
from tests.support.visiting import new_visitor
from tests.wire.conftest import Serving

VOICE: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 12}
LONG: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 4000}
PLACES = 3
FORWARDED = "x-forwarded-for"
ONE_SLOT = EngineSettings(threads=1, max_slots=1, max_waiting=PLACES)


@dataclass(frozen=True)
class Somebody:
    """Client with the IP address and headers by which the server identifies it."""

    address: str = "127.0.0.1"
    headers: dict[str, str] = field(default_factory=dict)

    async def talk(self, stack: AsyncExitStack, port: int, **config: Any) -> Talk:
        url = f"ws://127.0.0.1:{port}/v1/audio/speech/stream"
        words = {"local_addr": (self.address, 0), "additional_headers": self.headers}
        return await stack.enter_async_context(talk(url, words, **config))

    async def post(self, port: int) -> httpx.Response:
        body = {"input": "Hello.", "response_format": "pcm", "max_frames": 5}
        transport = httpx.AsyncHTTPTransport(local_address=self.address)
        async with httpx.AsyncClient(transport=transport, headers=self.headers, timeout=30) as client:
            return await client.post(f"http://127.0.0.1:{port}/v1/audio/speech", json=body)


async def take_turns(port: int, greedy: Somebody, polite: Somebody) -> None:
    """Check that another client's request is served before further requests of a busy client."""
    async with AsyncExitStack() as stack:
        speaking = await greedy.talk(stack, port, **LONG)
        await speaking.send_text("Speak for a long time.")
        await speaking.receive_until("audio.start")
        waiting = [await greedy.talk(stack, port, **VOICE) for _ in range(PLACES - 1)]
        for place, session in enumerate(waiting):
            await session.send_text("Me too.")
            assert (await session.receive_until("queue"))["position"] == place
        async with asyncio.TaskGroup() as group:
            newest = group.create_task(greedy.post(port))
            other = await polite.talk(stack, port, **VOICE)
            await asyncio.to_thread(until, lambda: waiting_at(port) == PLACES)
            await other.send_text("And me?")
            assert (await other.receive_until("queue"))["position"] == 0
        refused = newest.result()
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "overloaded")
        assert "retry-after" in refused.headers
        assert [(await session.receive_until("queue"))["position"] for session in waiting] == [1, 2]
        assert (await greedy.post(port)).json()["error"]["code"] == "overloaded"
        await speaking.send("context.cancel")
        for session in (other, *waiting):
            assert (await session.receive_take()).end["type"] == "audio.done"


def waiting_at(port: int) -> int:
    return int(httpx.get(f"http://127.0.0.1:{port}/ready").json()["waiting"])


def run(port: int, greedy: Somebody, polite: Somebody) -> None:
    asyncio.run(asyncio.wait_for(take_turns(port, greedy, polite), 60))


def test_each_address_is_a_separate_caller(serving: Serving, folder_of: FolderOf) -> None:
    with serving(folder_of("brief", "custom_voice"), engine=ONE_SLOT) as server:
        run(server.port, Somebody("127.0.0.2"), Somebody("127.0.0.3"))


def test_each_key_is_a_separate_caller(folder_of: FolderOf) -> None:
    settings = ServerSettings(api_keys="one,other")
    with running_server(folder_of("brief", "custom_voice"), engine=ONE_SLOT, server=settings) as server:
        one, other = (Somebody(headers={"X-API-Key": key}) for key in ("one", "other"))
        run(server.port, one, other)


def test_each_studio_visitor_is_a_separate_caller(folder_of: FolderOf) -> None:
    with (
        running_server(folder_of("brief", "custom_voice"), engine=ONE_SLOT) as runtime,
        studio_port(runtime.http, visitors="each") as port,
    ):
        run(port, Somebody(headers=new_visitor(port)), Somebody(headers=new_visitor(port)))


@pytest.mark.parametrize("visitors", ["one", "each"])
async def test_rate_limited_visitor_does_not_block_other_visitors(folder_of: FolderOf, visitors: str) -> None:
    settings = ServerSettings(requests_per_minute=4, account_key="between us", api_keys="the studio's")
    with (
        running_server(folder_of("brief", "custom_voice"), server=settings) as runtime,
        studio_port(runtime.http, settings, visitors=visitors) as port,
    ):
        greedy, polite = Somebody("127.0.0.2"), Somebody("127.0.0.3")
        if visitors == "each":
            greedy, polite = Somebody(headers=new_visitor(port)), Somebody(headers=new_visitor(port))
        inventing = replace(greedy, headers=greedy.headers | {ACCOUNT_HEADER: "another", FORWARDED: "192.0.2.1"})

        async with asyncio.timeout(60):
            statuses = [(await inventing.post(port)).status_code for _ in range(6)]
            assert statuses == [200] * 4 + [429] * 2
            async with AsyncExitStack() as stack:
                session = await polite.talk(stack, port, **VOICE)
                for code in (None, None, None, None, "rate_limited"):
                    await session.send_text("Once more.")
                    assert (await session.receive_take()).end.get("code") == code
            assert (await polite.post(port)).json()["error"]["code"] == "rate_limited"
