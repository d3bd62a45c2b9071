"""Tests for HTTP error statuses and error codes that other files do not test."""

from __future__ import annotations

import asyncio
import json
import math
import time
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from runtime.request import Mode
from runtime.settings import Limits, ServerSettings
from tests.conftest import FolderOf
from tests.support.engines import core_of
from tests.support.errors import BY_CODE
from tests.support.runtime_server import RunningServer, running_server
from tests.support.speech_client import talk
from tests.wire.conftest import Serving

VOICE: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 12}
LONG: dict[str, Any] = {"task_type": "custom_voice", "seed": 11, "max_frames": 4000}


def post(server: RunningServer, text: str = "Hello.", **fields: Any) -> httpx.Response:
    body = {"input": text, "response_format": "pcm", "max_frames": 5, **fields}
    return httpx.post(f"{server.http}/v1/audio/speech", json=body, timeout=30)


def refused(reply: httpx.Response, code: str) -> None:
    """Check the error code of a response, and the status and fields that belong to the code."""
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (BY_CODE[code].http_status, code)
    assert error["retryable"] is BY_CODE[code].retryable
    assert ("retry-after" in reply.headers) == (BY_CODE[code].close_code == 1013)


def test_requests_over_the_rate_limit_are_refused(folder_of: FolderOf) -> None:
    settings = ServerSettings(requests_per_minute=2)
    with running_server(folder_of("brief", "custom_voice"), server=settings) as server:
        assert [httpx.get(f"{server.http}/v1/models").status_code for _ in range(2)] == [200, 200]
        refused(httpx.get(f"{server.http}/v1/models"), "rate_limited")
        assert handshake(server) == "rate_limited"
        assert httpx.get(f"{server.http}/ready").status_code == 200  # The rate limit does not count health checks.


def test_items_of_a_batch_over_the_rate_limit_are_refused(folder_of: FolderOf) -> None:
    settings = ServerSettings(requests_per_minute=3)
    with running_server(folder_of("brief", "custom_voice"), server=settings) as server:
        items = [{"input": "Hello.", "max_new_tokens": 5}] * 5
        response = httpx.post(f"{server.http}/v1/audio/speech/batch", json={"items": items}, timeout=30).json()
        assert (response["succeeded"], response["failed"]) == (3, 2)


def test_connections_over_the_limit_are_refused(serving: Serving, folder_of: FolderOf) -> None:
    settings = ServerSettings(max_connections=1)
    with serving(folder_of("brief", "custom_voice"), server=settings) as server:

        async def scenario() -> None:
            async with talk(server.socket, **VOICE) as session:
                refused(await asyncio.to_thread(post, server), "too_many_connections")
                assert await asyncio.to_thread(handshake, server) == "too_many_connections"
                await session.send_text("I am in.")
                assert (await session.receive_take()).end["type"] == "audio.done"

        asyncio.run(scenario())
        while server.tasks():
            time.sleep(0.01)
        assert post(server).status_code == 200


def handshake(server: RunningServer) -> str:
    """Return the error code of a refused WebSocket handshake."""

    async def knock() -> str:
        with pytest.raises(InvalidStatus) as caught:
            async with talk(server.socket):
                pass
        body = json.loads(caught.value.response.body or b"")
        assert caught.value.response.status_code == BY_CODE[body["error"]["code"]].http_status
        return str(body["error"]["code"])

    return asyncio.run(knock())


async def test_out_of_order_and_too_many_contexts_are_refused(serving: Serving, folder_of: FolderOf) -> None:
    with serving(folder_of("brief", "custom_voice"), limits=Limits(max_contexts=2)) as server:
        async with talk(server.socket) as session:
            await session.send("input.text", text="Before any voice.")
            assert (await session.receive_until("error"))["code"] == "out_of_order"
            await session.send("session.config", **LONG, frames="labelled")
            for name in "abc":
                await session.send("input.text", context_id=name, text="One of many. ")
            error = await session.receive_until("error")
            assert (error["code"], error["context_id"]) == ("too_many_contexts", "c")
        server.wait_until_idle()


@pytest.mark.logs_errors
def test_non_finite_numbers_end_the_request_and_not_the_server(folder_of: FolderOf) -> None:
    with running_server(folder_of("brief", "custom_voice")) as server:
        assert server.engine is not None
        weight = core_of(server.engine, Mode.CUSTOM_VOICE).checkpoint.talker.model.norm.weight
        good = weight.data.clone()
        weight.data.fill_(math.inf)
        refused(post(server), "non_finite_output")
        weight.data.copy_(good)
        assert post(server).status_code == 200
