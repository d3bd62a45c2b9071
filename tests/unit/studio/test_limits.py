"""Tests for the limits on one visitor's concurrent requests.

tests/wire/test_allowance.py tests the daily allowance.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from runtime.settings import Limits
from runtime.shared.port.limits import Allowance
from studio.app import build
from studio.errors import StoreFull
from studio.page.startup import StartupPage
from studio.relay.relay import Relay
from studio.runtimes.given_runtime import GivenRuntime
from studio.settings import StoreSettings, StudioSettings, VisitSettings
from studio.store_service import StoreService
from studio.transcribing.plugin import Choice
from studio.transcribing.service import TranscriptionService
from studio.visitors.limits import RESTRICTED_PATHS, Accounts, VisitLimits, allowances, stores
from studio.visitors.visitors import COOKIE, Visitor, Visitors
from tests.support.visiting import KEY, VISITORS, header_of
from tests.unit.studio.serving import served

BYTES_PER_S = 48_000
ONE, OTHER = header_of("a"), header_of("b")
TEXT = json.dumps({"type": "input.text", "text": "Hello."})


class Studio:
    """Studio whose runtime sends one second of audio per message until the test ends it."""

    def __init__(
        self,
        *,
        each: bool = True,
        must_sign_in: bool = False,
        admit: Callable[[Visitor], Awaitable[None]] | None = None,
        **settings: Any,
    ) -> None:
        self.may_end = asyncio.Event()
        self.begun = asyncio.Event()
        routes = [
            Route("/v1/audio/speech", self.speak, methods=["POST"]),
            Route("/studio/me", lambda _: JSONResponse({}), methods=["GET", "PATCH"]),
            Route("/v1/models", lambda _: JSONResponse({})),
            WebSocketRoute("/v1/audio/speech/stream", self.socket),
        ]
        visits = VisitSettings(**settings)
        accounts = Accounts(VISITORS if each else Visitors(has_separate_histories=False), visits.visitors_per_address)
        limits = Middleware(VisitLimits, accounts=accounts, settings=visits, must_sign_in=must_sign_in, admit=admit)
        self.app = Starlette(routes=routes, middleware=[limits])

    async def speak(self, request: Request) -> Response:
        self.begun.set()
        await self.may_end.wait()
        return Response(bytes(BYTES_PER_S), media_type="audio/pcm")

    async def socket(self, socket: WebSocket) -> None:
        await socket.accept()
        async for _ in socket.iter_text():
            await socket.send_bytes(bytes(BYTES_PER_S))

    @asynccontextmanager
    async def client(self) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
        async with (
            served([Mount("/", self.app)]) as address,
            httpx.AsyncClient(base_url=f"http://{address}", trust_env=False) as client,
        ):
            yield client, f"ws://{address}/v1/audio/speech/stream"


async def read_refusal(socket: ClientConnection) -> tuple[dict[str, Any], int]:
    """Receive the last message before a close, and return the message and the close code."""
    said = json.loads(await socket.recv())
    with pytest.raises(ConnectionClosed) as closed:
        await socket.recv()
    assert closed.value.rcvd is not None
    return said, closed.value.rcvd.code


async def refusal(socket: ClientConnection) -> tuple[str, int]:
    said, closed = await read_refusal(socket)
    return said["code"], closed


async def heard(url: str) -> bytes | None:
    """Request speech on another WebSocket of the first visitor, and return its audio.

    Returns:
        The audio of the response, or None if the request was refused.
    """
    async with connect(url, additional_headers=ONE, proxy=None) as socket:
        with suppress(ConnectionClosed):
            await socket.send(TEXT)
        answer = await socket.recv()
        assert isinstance(answer, str) or len(answer) == BYTES_PER_S
        return answer if isinstance(answer, bytes) else None


async def test_sockets_per_visitor_are_limited_and_become_free() -> None:
    async with Studio(visitor_sockets=2).client() as (_, url):
        first = await connect(url, additional_headers=ONE, proxy=None)
        async with connect(url, additional_headers=ONE, proxy=None) as second:
            async with connect(url, additional_headers=ONE, proxy=None) as third:
                assert await refusal(third) == ("too_many_connections", 1013)
            async with connect(url, additional_headers=OTHER, proxy=None) as others:
                await others.send(TEXT)
                assert len(await others.recv()) == BYTES_PER_S
            await second.send(TEXT)  # Existing connections continue.
            assert len(await second.recv()) == BYTES_PER_S
            await first.close()
            async with asyncio.timeout(60):  # The studio detects the disconnect after a delay.
                while await heard(url) is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)


@pytest.mark.parametrize("held", ["{number:043d}", "{number:043d}.{number:043d}"], ids=["unsigned", "forged"])
async def test_requests_without_a_valid_cookie_share_one_socket_limit(held: str) -> None:
    async with Studio(visitor_sockets=1).client() as (_, url), AsyncExitStack() as stack:
        refused = 0
        for number in range(6):
            invented = {"cookie": f"{COOKIE}={held.format(number=number)}"}
            socket = await stack.enter_async_context(connect(url, additional_headers=invented, proxy=None))
            if number:
                assert await refusal(socket) == ("too_many_connections", 1013)
                refused += 1
        assert refused == 5
        async with connect(url, additional_headers=ONE, proxy=None) as known:
            await known.send(TEXT)
            assert len(await known.recv()) == BYTES_PER_S


def test_visitors_over_the_daily_limit_share_one_account_per_address() -> None:
    now = 0.0
    accounts = Accounts(VISITORS, 2, lambda: now)

    def who(letter: str, address: str = "192.0.2.7") -> str:
        raw = [(name.encode(), value.encode()) for name, value in header_of(letter).items()]
        return accounts.account_of(HTTPConnection({"type": "http", "headers": raw, "client": (address, 5)}))[1]

    own = {who("a"), who("b")}
    assert {account[:8] for account in own} == {"visitor:"}
    assert (who("c"), who("d")) == ("address:192.0.2.7", "address:192.0.2.7")
    assert {who("a"), who("b")} == own
    assert who("c", "192.0.2.8").startswith("visitor:")
    rotating = [who(letter, f"2a00:1450:4001:81b::{letter}") for letter in "abcdef"]
    assert rotating[2:] == ["address:2a00:1450:4001:81b::/64"] * 4
    now = 86_400.0
    assert who("c").startswith("visitor:")


async def test_concurrent_requests_per_visitor_are_limited() -> None:
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


def test_runtime_receives_the_account_and_its_limits() -> None:
    settings = VisitSettings(visitor_speech_s=60, member_speech_s=600)
    members = {VISITORS.signed("b" * 43): ("17", "Ben")}
    visitors = Visitors(
        has_separate_histories=True, key=KEY, member_of=lambda asks: members.get(asks.cookies.get(COOKIE, ""))
    )

    def allowance_of(each: Visitors, settings: VisitSettings = settings, **headers: str) -> Allowance:
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "headers": raw, "client": ("192.0.2.7", 5), "method": "POST", "path": "/"}
        return allowances(Accounts(each, 8), settings)(HTTPConnection(scope))

    stranger, anna, ben = allowance_of(visitors), allowance_of(visitors, **ONE), allowance_of(visitors, **OTHER)
    assert stranger == Allowance("address:192.0.2.7", 60)
    assert (anna.account[:8], anna.seconds) == ("visitor:", 60)
    assert (ben.account, ben.seconds) == ("member:17", 600)
    # By default, the seconds of speech are not limited.
    assert allowance_of(visitors, VisitSettings(), **ONE) == Allowance(anna.account)
    assert allowance_of(Visitors(has_separate_histories=False), **ONE) == Allowance("address:192.0.2.7")


async def test_shared_studio_applies_no_visitor_limits() -> None:
    studio = Studio(each=False, visitor_requests=1)
    studio.may_end.set()
    async with studio.client() as (client, _):
        for _ in range(3):
            assert (await client.post("/v1/audio/speech")).status_code == 200


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    """Return the FastAPI application of a studio without a running runtime."""
    data = str(tmp_path_factory.mktemp("data"))
    settings = StudioSettings(store=StoreSettings(data=data), transcriber=Choice.of(""))
    store_service = StoreService(settings.store)
    transcription = TranscriptionService(settings.transcriber, Limits())
    app = build(GivenRuntime("http://127.0.0.1:1"), StartupPage(), store_service, transcription, settings)
    store_service.store.close()
    return app


def test_sign_in_is_required_for_every_runtime_route(app: FastAPI) -> None:
    relayed = [
        str(route.path)
        for route in iter_route_contexts(app.router.routes)
        if isinstance(getattr(route.endpoint, "__self__", None), Relay) and route.path != "/ready"
    ]
    assert len(relayed) > 5
    assert [path for path in relayed if not path.startswith(RESTRICTED_PATHS)] == []


# Requests that store no data for their visitor, although their method is not GET.
STORE_NOTHING = {
    *("/studio/documents", "/studio/exports", "/studio/transcribe", "/studio/pronunciation/said"),
    "/studio/transcribe/model",  # Only the host can use this route, which downloads the recogniser.
    *("/studio/takes/free", "/studio/takes/delete"),
    *("/health", "/ready", "/studio/{path:path}", "/shared/{path:path}"),  # These paths respond with 404 or 405.
}
OF_THE_HOST = ("/studio/host", "/studio/real-voices")


def test_every_route_is_classified_as_storing_or_not(app: FastAPI) -> None:
    stored, unknown = set(), set()
    for route in iter_route_contexts(app.router.routes):
        changes = (getattr(route, "methods", None) or set()) - {"GET", "HEAD", "OPTIONS", "DELETE"}
        path = str(route.path)
        if not changes or isinstance(getattr(route.endpoint, "__self__", None), Relay) or path.startswith(OF_THE_HOST):
            continue
        if stores({"type": "http", "method": min(changes), "path": path}):
            stored.add(path)
        elif path not in STORE_NOTHING:
            unknown.add(path)
    assert unknown == set()
    assert {"/studio/takes", "/studio/scripts/{id}", "/studio/me", "/studio/pronunciation"} <= stored


@pytest.mark.parametrize(
    ("method", "path", "is_stored"),
    [
        ("POST", "/v1/audio/voices", True),
        ("PATCH", "/v1/audio/voices/x", True),
        ("POST", "/v1/audio/voices/check", False),
        ("POST", "/v1/pronunciation-dictionaries/add-from-file", True),
        ("POST", "/pronunciation-dicts", True),
        ("POST", "/v1/audio/speech", False),
        ("GET", "/studio/takes", False),
        ("DELETE", "/studio/takes/x", False),
    ],
)
def test_voices_and_dictionaries_count_as_stored(method: str, path: str, is_stored: bool) -> None:
    assert stores({"type": "http", "method": method, "path": path}) is is_stored


async def test_visitors_above_the_limit_per_address_cannot_store_data() -> None:
    async with Studio(visitors_per_address=1).client() as (client, _):
        assert (await client.patch("/studio/me", headers=ONE)).status_code == 200
        refused = await client.patch("/studio/me", headers=OTHER)
        assert (refused.status_code, refused.json()["error"]["code"]) == (507, "store_full")
        assert (await client.get("/studio/me", headers=OTHER)).status_code == 200
        assert (await client.patch("/studio/me", headers=ONE)).status_code == 200


async def test_runtime_stores_data_only_if_the_visitor_limits_allow_it() -> None:
    asked: list[str | None] = []

    async def admit(visitor: Visitor) -> None:
        asked.append(visitor.owner)
        raise StoreFull(what="What you send", why="others do")

    async with Studio(admit=admit).client() as (client, _):
        for path in (
            "/v1/audio/voices",
            "/v1/audio/pronunciations",
            "/pronunciation-dicts",
            "/studio/takes/x/voice",
        ):
            assert (await client.post(path, headers=ONE)).status_code == 507
        for path in ("/v1/audio/voices/check", "/studio/takes", "/studio/takes/x/y/voice"):
            assert (await client.post(path, headers=ONE)).status_code == 404
        assert (await client.delete("/v1/audio/voices/x", headers=ONE)).status_code == 404
    assert len(asked) == 4
    assert None not in asked


async def test_unauthenticated_visitors_get_only_the_sign_in_routes() -> None:
    async with Studio(must_sign_in=True).client() as (client, url):
        assert (await client.get("/studio/me", headers=ONE)).status_code == 200
        refused = await client.post("/v1/audio/speech", headers=ONE)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "sign_in_needed")
        for path in ("/voices", "/v2/voices", "/pronunciation-dicts", "/v1/audio/pronunciations"):
            assert (await client.get(path, headers=ONE)).status_code == 401
        async with connect(url, additional_headers=ONE, proxy=None) as socket:
            assert await refusal(socket) == ("sign_in_needed", 1008)
        host = url.removesuffix("/v1/audio/speech/stream")
        async with connect(f"{host}/tts/websocket", additional_headers=ONE, proxy=None) as socket:
            said, closed = await read_refusal(socket)
            assert (said["type"], said["error_code"], said["status_code"], said["done"], closed) == (
                *("error", "sign_in_needed", 401, False),
                1008,
            )
        eleven = f"{host}/v1/text-to-speech/clara/stream-input"
        async with connect(eleven, additional_headers=ONE, proxy=None) as socket:
            said, closed = await read_refusal(socket)
            assert (said["error"], said["code"], said["retryable"], closed) == ("sign_in_needed", 1008, False, 1008)
            assert "type" not in said
