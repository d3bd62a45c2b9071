"""What one visitor may have at once and in a day, on a real server with real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from studio.limits import PCM, VisitLimits
from studio.settings import VisitSettings
from studio.visitors import COOKIE, Visitors
from tests.unit.studio.serving import served

ONE, OTHER = ({"cookie": f"{COOKIE}={letter * 43}"} for letter in "ab")
TEXT = json.dumps({"type": "input.text", "text": "Hello."})


class Studio:
    """Speech that lasts as long as the test wants, a second at a time."""

    def __init__(self, *, each: bool = True, must_sign_in: bool = False, **settings: Any) -> None:
        self.may_end = asyncio.Event()
        self.begun = asyncio.Event()
        routes = [
            Route("/v1/audio/speech", self.speak, methods=["POST"]),
            Route("/studio/me", lambda _: JSONResponse({})),
            Route("/v1/models", lambda _: JSONResponse({})),
            WebSocketRoute("/v1/audio/speech/stream", self.socket),
        ]
        visitors = Visitors(each=each)
        limits = Middleware(
            VisitLimits, visitors=visitors, settings=VisitSettings(**settings), must_sign_in=must_sign_in
        )
        self.app = Starlette(routes=routes, middleware=[limits])

    async def speak(self, request: Request) -> Response:
        self.begun.set()
        await self.may_end.wait()
        return Response(bytes(PCM), media_type="audio/pcm")

    async def socket(self, socket: WebSocket) -> None:
        await socket.accept()
        async for _ in socket.iter_text():
            await socket.send_bytes(bytes(PCM))

    @asynccontextmanager
    async def client(self) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
        async with (
            served([Mount("/", self.app)]) as address,
            httpx.AsyncClient(base_url=f"http://{address}", trust_env=False) as client,
        ):
            yield client, f"ws://{address}/v1/audio/speech/stream"


async def refusal(socket: ClientConnection) -> tuple[str, int]:
    """The code of the message and that of the close."""
    said = json.loads(await socket.recv())
    with pytest.raises(ConnectionClosed) as closed:
        await socket.recv()
    assert closed.value.rcvd is not None
    return said["code"], closed.value.rcvd.code


def test_a_visitor_has_so_many_sockets_and_gets_a_place_back() -> None:
    async def run() -> None:
        async with Studio(visitor_sockets=2).client() as (_, url):
            first = await connect(url, additional_headers=ONE, proxy=None)
            async with connect(url, additional_headers=ONE, proxy=None) as second:
                async with connect(url, additional_headers=ONE, proxy=None) as third:
                    assert await refusal(third) == ("too_many_connections", 1013)
                async with connect(url, additional_headers=OTHER, proxy=None) as others:
                    await others.send(TEXT)
                    assert len(await others.recv()) == PCM
                await second.send(TEXT)  # those that were there go on
                assert len(await second.recv()) == PCM
                await first.close()
                await asyncio.sleep(0.1)
                async with connect(url, additional_headers=ONE, proxy=None) as again:
                    await again.send(TEXT)
                    assert len(await again.recv()) == PCM

    asyncio.run(run())


def test_a_visitor_has_so_many_requests_in_flight() -> None:
    async def run() -> None:
        studio = Studio(visitor_requests=1)
        async with studio.client() as (client, _):
            first = asyncio.create_task(client.post("/v1/audio/speech", headers=ONE))
            await studio.begun.wait()
            second = await client.post("/v1/audio/speech", headers=ONE)
            assert (second.status_code, second.json()["error"]["code"]) == (429, "rate_limited")
            assert second.headers["retry-after"]
            studio.may_end.set()
            assert (await client.post("/v1/audio/speech", headers=OTHER)).status_code == 200
            assert (await first).status_code == 200
            assert (await client.post("/v1/audio/speech", headers=ONE)).status_code == 200

    asyncio.run(run())


def test_seconds_of_a_day_are_counted_on_every_way_together() -> None:
    async def run() -> None:
        studio = Studio(visitor_speech_s=3)
        studio.may_end.set()
        async with studio.client() as (client, url):
            assert (await client.post("/v1/audio/speech", headers=ONE)).status_code == 200
            async with connect(url, additional_headers=ONE, proxy=None) as socket:
                for _ in range(2):
                    await socket.send(TEXT)
                    assert len(await socket.recv()) == PCM
                await socket.send(TEXT)
                assert await refusal(socket) == ("speech_spent", 1013)
            spent = await client.post("/v1/audio/speech", headers=ONE)
            assert (spent.status_code, spent.json()["error"]["code"]) == (429, "speech_spent")
            assert "3 s of speech" in spent.json()["error"]["message"]
            async with connect(url, additional_headers=ONE, proxy=None) as socket:
                assert await refusal(socket) == ("speech_spent", 1013)
            assert (await client.post("/v1/audio/speech", headers=OTHER)).status_code == 200
            assert (await client.get("/v1/models", headers=ONE)).status_code == 200

    asyncio.run(run())


def test_where_all_are_one_nobody_is_counted() -> None:
    async def run() -> None:
        studio = Studio(each=False, visitor_speech_s=1, visitor_requests=1)
        studio.may_end.set()
        async with studio.client() as (client, _):
            for _ in range(3):
                assert (await client.post("/v1/audio/speech")).status_code == 200

    asyncio.run(run())


def test_where_signing_in_is_asked_for_nothing_else_is_served() -> None:
    async def run() -> None:
        async with Studio(must_sign_in=True).client() as (client, url):
            assert (await client.get("/studio/me", headers=ONE)).status_code == 200
            refused = await client.post("/v1/audio/speech", headers=ONE)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "sign_in_needed")
            async with connect(url, additional_headers=ONE, proxy=None) as socket:
                assert await refusal(socket) == ("sign_in_needed", 1008)

    asyncio.run(run())
