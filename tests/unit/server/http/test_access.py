"""Tests for access control: keys, tickets, origins, rate limits and body sizes."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import Message, Receive, Scope, Send

from runtime.server.app import create_app
from runtime.server.engine_host import EngineHost
from runtime.server.http.access import AccessControl
from runtime.server.http.keys import KeyRing, TicketStore
from runtime.server.rate_limit import RateLimit
from runtime.server.speech_engine import Progress, SpeechEngine
from runtime.settings import Limits, ServerSettings, Settings
from runtime.shared.port.origins import OPEN_ROUTES, Hosts, Origins, RequestGuard
from tests.support.library import MemoryLibrary

KEY = "key-one"
KEYS: dict[str, Any] = {"api_keys": f"{KEY}, key-two"}


def no_engine(settings: Settings, progress: Progress) -> SpeechEngine:
    raise AssertionError("nothing is loaded here")


@dataclass
class Door:
    """Application that receives requests through the request guard and the access control.

    It records its calls. The test sets the clock of both.
    """

    settings: ServerSettings = field(default_factory=ServerSettings)
    limits: Limits = field(default_factory=Limits)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.inside: list[Scope] = []
        self.bodies: list[bytes] = []
        self.leave = asyncio.Event()
        self.leave.set()
        self.host = EngineHost(Settings(server=self.settings, limits=self.limits), no_engine, MemoryLibrary())
        self.tickets = TicketStore(self.settings.ticket_s, lambda: self.now)
        keys = KeyRing(self.settings, lambda: self.now)
        self.access = AccessControl(self.room, self.host, keys, self.tickets, lambda: self.now)
        hosts = Hosts("studio.example", self.settings.host)
        self.door = RequestGuard(self.access, self.settings, hosts, Origins(self.settings.origins))

    async def room(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.inside.append(scope)
        await self.leave.wait()
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.bodies.append(body)
        await PlainTextResponse("come in")(scope, receive, send)

    async def knock(
        self,
        kind: str = "websocket",
        *,
        path: str = "/v1/audio/speech/stream",
        method: str = "GET",
        query: str = "",
        address: str = "192.0.2.7",
        subprotocols: tuple[str, ...] = (),
        body: tuple[bytes, ...] = (b"",),
        **headers: str,
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        """Send one request to the application through the access control.

        Returns:
            Status (101 for an accepted WebSocket), error object and response headers.
        """
        said: list[Message] = []
        pairs = {"host": "studio.example:8210", **{name.replace("_", "-"): value for name, value in headers.items()}}
        scope: Scope = {
            "type": kind,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in pairs.items()],
            "client": (address, 5000),
            "extensions": {"websocket.http.response": {}},
            **({"subprotocols": list(subprotocols)} if kind == "websocket" else {"method": method}),
        }
        parts = list(body)

        async def receive() -> Message:
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        async def send(message: Message) -> None:
            said.append(message)

        await self.door(scope, receive, send)
        start, *rest = said
        if start["type"] == "websocket.accept":
            return 101, {}, {}
        answer = {name.decode(): value.decode() for name, value in start["headers"]}
        text = b"".join(message["body"] for message in rest)
        return start["status"], as_openai_s(json.loads(text)) if start["status"] >= 400 else {}, answer


def as_openai_s(body: dict[str, Any]) -> dict[str, Any]:
    """Convert the error of a refused request in any API to an object with the key `code`."""
    if "error" in body:
        return dict(body["error"])
    if "detail" in body:
        return {**body["detail"], "code": body["detail"]["status"]}
    return {**body, "code": body["error_code"]}


def knock(door: Door | None = None, *arguments: Any, **kwargs: Any) -> tuple[int, str | None]:
    status, error, _ = asyncio.run((door or Door()).knock(*arguments, **kwargs))
    return status, error.get("code")


def test_unknown_forwarded_host_is_refused() -> None:
    assert knock(x_forwarded_host="studio.example, localhost:80") == (101, None)
    for name in ("evil.example", "studio.example, evil.example"):
        assert knock(x_forwarded_host=name) == (403, "host_refused"), name


CREDENTIALS: list[dict[str, Any]] = [
    {"authorization": f"Bearer {KEY}"},
    {"authorization": "bearer key-two"},
    {"x_api_key": KEY},
    {"xi_api_key": "key-two"},
]
WRONG: list[dict[str, Any]] = [
    {},
    {"authorization": KEY},
    {"authorization": f"Basic {KEY}"},
    {"authorization": "Bearer "},
    {"x_api_key": ""},
    {"x_api_key": "key"},
    {"x_api_key": f"{KEY},key-two"},
    {"x_api_key": "kéy"},
    {"query": f"ticket={KEY}"},
    {"query": f"api_key={KEY}"},
]


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("words", CREDENTIALS)
def test_valid_key_is_accepted(kind: str, words: dict[str, Any]) -> None:
    assert knock(Door(ServerSettings(**KEYS)), kind, **words) == (200 if kind == "http" else 101, None)


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("words", WRONG)
def test_invalid_keys_are_refused(kind: str, words: dict[str, Any]) -> None:
    door = Door(ServerSettings(**KEYS))
    assert knock(door, kind, **words) == (401, "unauthorized")
    assert not door.inside


def test_key_may_be_sent_as_a_subprotocol_and_is_not_forwarded() -> None:
    door = Door(ServerSettings(**KEYS))
    ours = "voicewright.speech.v1"
    assert knock(door, subprotocols=(ours, f"voicewright.token.{KEY}")) == (101, None)
    assert door.inside[0]["subprotocols"] == [ours]
    assert knock(door, subprotocols=(ours, "voicewright.token.wrong")) == (401, "unauthorized")


def test_ticket_is_valid_for_one_socket_and_a_short_time() -> None:
    door = Door(ServerSettings(**KEYS, ticket_s=60))
    ticket, late = door.tickets.issue(), door.tickets.issue()
    # A ticket is valid only for a WebSocket.
    assert knock(door, "http", query=f"ticket={ticket}") == (401, "unauthorized")
    assert knock(door, query=f"ticket={ticket}&x=1") == (101, None)
    assert knock(door, query=f"ticket={ticket}") == (401, "unauthorized")
    assert knock(door, query=f"ticket={late}&ticket={late}") == (401, "unauthorized")
    door.now = 60.0
    assert knock(door, query=f"ticket={late}") == (401, "unauthorized")


def test_number_of_stored_tickets_is_limited() -> None:
    tickets = TicketStore(60, lambda: 0.0)
    first = tickets.issue()
    issued = [tickets.issue() for _ in range(4096)]
    assert not tickets.redeem(first)
    assert all(tickets.redeem(ticket) for ticket in issued)


ROUTES = [
    (type(route).__name__, route.path)
    for route in create_app(EngineHost(Settings(server=ServerSettings(**KEYS)), no_engine, MemoryLibrary())).routes
    if isinstance(route, Route | WebSocketRoute)
]


@pytest.mark.parametrize(("kind", "path"), ROUTES)
def test_every_route_requires_the_key_except_the_two_health_probes(kind: str, path: str) -> None:
    """The routes are those of the real application, so the test includes new routes."""
    scope_type = "websocket" if "WebSocket" in kind else "http"
    door = Door(ServerSettings(**KEYS))
    door.access._app = create_app(door.host)
    for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS"):
        status, _ = knock(door, scope_type, path=path, method=method, body=(b"",))
        assert (status == 401) == (path not in OPEN_ROUTES), method
    assert {"/health", "/ready"} == OPEN_ROUTES < {path for _, path in ROUTES}
    assert ("APIWebSocketRoute", "/v1/audio/speech/stream") in ROUTES


@pytest.mark.parametrize(
    ("origin", "opens"),
    [
        ("http://studio.example:8210", True),
        ("https://app.example", True),
        ("https://app.example/", True),
        ("null", False),
        ("", False),
        ("https://evil-app.example", False),
        ("http://studio.example", False),
        ("http://[::1", False),
    ],
)
@pytest.mark.parametrize(("kind", "method"), [("websocket", "GET"), ("http", "POST"), ("http", "DELETE")])
def test_foreign_origins_are_refused(kind: str, method: str, origin: str, opens: bool) -> None:
    door = Door(ServerSettings(origins="https://app.example"))
    status, code = knock(door, kind, method=method, origin=origin)
    assert (status < 300, code) == (opens, None if opens else "origin_refused")


@pytest.mark.parametrize(
    ("site", "opens"), [("same-origin", True), ("none", True), ("same-site", False), ("cross-site", False)]
)
def test_request_without_origin_is_checked_by_sec_fetch_site(site: str, opens: bool) -> None:
    assert knock(None, "http", method="POST", sec_fetch_site=site)[0] == (200 if opens else 403)
    assert knock(None, "http", sec_fetch_site=site) == (200, None)


def test_safe_methods_and_non_browser_clients_need_no_origin() -> None:
    assert knock(None, "http", origin="https://evil.example") == (200, None)
    assert knock(None, "http", method="POST") == (200, None)
    assert knock() == (101, None)


async def test_connections_are_limited_in_total_and_by_address() -> None:
    async def probe(door: Door) -> tuple[int, dict[str, Any], dict[str, str]]:
        door.leave.set()
        answer = await door.knock("http", path="/health")
        door.leave.clear()
        return answer

    door = Door(ServerSettings(max_connections=4, max_connections_per_address=2))
    door.leave.clear()
    waiting = [asyncio.create_task(door.knock(address="192.0.2.7")) for _ in range(2)]
    await asyncio.sleep(0)
    status, error, headers = await door.knock(address="192.0.2.7")
    assert (status, error["code"], headers["retry-after"]) == (503, "too_many_connections", "1")
    waiting += [asyncio.create_task(door.knock("http", address="::1")) for _ in range(2)]
    await asyncio.sleep(0)
    for kind in ("http", "websocket"):
        status, error, _ = await door.knock(kind, address="192.0.2.8")
        assert (status, error["code"]) == (503, "too_many_connections")
    status, _, _ = await asyncio.wait_for(probe(door), 60)
    assert status == 200
    door.leave.set()
    assert [status for status, *_ in await asyncio.gather(*waiting)] == [101, 101, 200, 200]
    assert (await door.knock(address="192.0.2.7"))[0] == 101
    assert not door.door.caps.by_address


async def test_loopback_address_has_a_higher_connection_limit() -> None:
    door = Door(ServerSettings(max_connections_per_address=1))
    door.leave.clear()
    waiting = [asyncio.create_task(door.knock(address="127.0.0.1")) for _ in range(3)]
    await asyncio.sleep(0)
    door.leave.set()
    assert [status for status, *_ in await asyncio.gather(*waiting)] == [101, 101, 101]


def test_requests_per_minute_are_counted_by_key_or_address() -> None:
    door = Door(ServerSettings(**KEYS, requests_per_minute=2))

    def ask(**kwargs: Any) -> int:
        return knock(door, "http", **kwargs)[0]

    assert [ask(x_api_key=KEY, address=f"192.0.2.{n}") for n in range(3)] == [200, 200, 429]
    assert ask(x_api_key="key-two") == 200
    assert [ask(x_api_key="guess") for _ in range(3)] == [401, 401, 429]  # Invalid keys are also rate-limited.
    status, error, headers = asyncio.run(door.knock("websocket", x_api_key=KEY))
    assert (status, error["code"], headers["retry-after"]) == (429, "rate_limited", "30")
    door.now = 30.0
    assert [ask(x_api_key=KEY) for _ in range(2)] == [200, 429]


@pytest.mark.parametrize("keys", [{}, KEYS], ids=["open", "with keys"])
def test_account_header_sets_the_rate_limit_only_if_sent_by_the_studio(
    keys: dict[str, str],
) -> None:
    door = Door(ServerSettings(**keys, requests_per_minute=2, account_key="between us"))

    def ask(account: str, secret: str = "between us") -> int:
        named = {"x_speech_account": account, "x_speech_account_key": secret}
        return knock(door, "http", x_api_key=KEY, **named)[0]

    assert [ask("visitor:anna") for _ in range(3)] == [200, 200, 429]
    assert [ask("address:192.0.2.8") for _ in range(3)] == [200, 200, 429]
    assert [ask(f"invented {number}", "a guess") for number in range(3)] == [200, 200, 429]
    assert [ask(f"invented {number}", "") for number in range(3)] == [429, 429, 429]


def test_number_of_callers_with_a_stored_rate_limit_is_limited() -> None:
    rate = RateLimit(1, lambda: 0.0)
    assert rate.wait_s(b"first") == 0
    assert rate.wait_s(b"first") == 60
    for number in range(5000):
        rate.wait_s(str(number).encode())
    assert len(rate) == 4096


@pytest.mark.parametrize("is_declared", [True, False])
def test_body_over_the_limit_is_refused(is_declared: bool) -> None:
    door = Door(limits=Limits(max_config_bytes=2048, max_upload_bytes=1024))
    limit = 1024 + 64 * 2**10
    headers = {"content_length": str(limit + 1)} if is_declared else {}
    status, code = knock(door, "http", method="POST", body=(b"x" * limit, b"x", b"x" * 9), **headers)
    assert (status, code) == (413, "message_too_large")
    # The application receives a disconnect instead of the rest of the body.
    assert door.bodies == ([] if is_declared else [b"x" * limit])
    assert len(door.inside) == (0 if is_declared else 1)
    assert knock(door, "http", method="POST", body=(b"x" * (limit - 1), b"x")) == (200, None)
    assert door.bodies[-1] == b"x" * limit


def test_ipv6_network_shares_one_rate_limit() -> None:
    door = Door(ServerSettings(requests_per_minute=2))
    statuses = [knock(door, "http", address=f"2a00:1450:4001:81b::{number}")[0] for number in (1, 2, 3)]
    assert statuses == [200, 200, 429]
    assert knock(door, "http", address="2a00:1450:4001:81c::1")[0] == 200


async def test_checks_run_in_the_order_connections_origin_rate_key_body() -> None:
    door = Door(ServerSettings(**KEYS, requests_per_minute=1, max_connections=1))
    bad: dict[str, Any] = {"method": "POST", "content_length": "9" * 12}
    door.leave.clear()
    held = asyncio.create_task(door.knock(x_api_key="key-two"))
    await asyncio.sleep(0)
    codes = [(await door.knock("http", **bad, origin="null"))[1]["code"]]
    door.leave.set()
    await held
    codes.append((await door.knock("http", **bad, origin="null"))[1]["code"])
    codes.append((await door.knock("http", **bad))[1]["code"])
    codes.append((await door.knock("http", **bad))[1]["code"])
    codes.append((await door.knock("http", **bad, x_api_key=KEY))[1]["code"])
    assert codes == [
        "too_many_connections",
        "origin_refused",
        "unauthorized",
        "rate_limited",
        "message_too_large",
    ]


async def test_refusals_neither_echo_nor_log_client_input(caplog: pytest.LogCaptureFixture) -> None:
    canary = "canary-7f3a"
    caplog.set_level(logging.DEBUG)
    for settings in (ServerSettings(**KEYS), ServerSettings(requests_per_minute=1), ServerSettings()):
        door = Door(settings)
        for kind in ("http", "websocket"):
            answer = await door.knock(
                kind, path=f"/{canary}", method="POST", query=f"ticket={canary}", x_api_key=canary, origin=canary
            )
            assert canary not in str(answer)
    assert canary not in caplog.text
