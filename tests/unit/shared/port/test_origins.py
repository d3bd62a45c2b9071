"""Tests for the setting VOICEWRIGHT_ORIGINS: preflights, requests and WebSockets."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from runtime.errors import InvalidSetting
from runtime.settings import ServerSettings
from runtime.shared.port.origins import Cors, Hosts, Origins, RequestGuard, may_use

SETTING = (
    "https://app.example, http://localhost:3000/, app://obsidian.md,chrome-extension://abcdefgh,moz-extension://*,"
    "tauri://localhost,capacitor://localhost,vscode-webview://0a1b,https://*.example.org,http://*.dev.test:8080,file://"
)
ALLOWED = [
    "https://app.example",
    "https://app.example:443",
    "https://APP.example",
    "http://localhost:3000",
    "app://obsidian.md",
    "chrome-extension://abcdefgh",
    "moz-extension://5b6c-1",
    "tauri://localhost",
    "capacitor://localhost",
    "vscode-webview://0a1b",
    "file://",
    "https://a.example.org",
    "https://a.b.example.org",
    "http://x.dev.test:8080",
]
REFUSED = [
    "null",
    "http://app.example",
    "https://app.example:8443",
    "https://app.example.evil.test",
    "https://example.org",
    "https://evilexample.org",
    "http://a.example.org",
    "https://a.example.org:444",
    "http://x.dev.test",
    "app://other.md",
    "chrome-extension://abcdefgh.evil",
    "tauri://evil",
    "tauri://",
    "https://",
    "ionic://localhost",
    "https://a.example.org/path",
    "https://user@a.example.org",
    "https://a.example.org@evil.test",
    "",
]


def answers(setting: str, origin: str) -> set[bool]:
    """Send a preflight, a POST and a WebSocket handshake, and return the set of their results.

    A result is True if the request was accepted.
    """

    async def socket(client: WebSocket) -> None:
        await client.accept()

    origins = Origins(setting)
    routes = [
        Route("/speak", lambda _: PlainTextResponse("spoken"), methods=["POST"]),
        WebSocketRoute("/stream", socket),
    ]
    door: Any = RequestGuard(Starlette(routes=routes), ServerSettings(), Hosts("*", "127.0.0.1"), origins)
    client = TestClient(Cors(door, origins))
    headers = {"Origin": origin}
    preflight = client.options("/speak", headers={**headers, "Access-Control-Request-Method": "POST"})
    posted = client.post("/speak", headers=headers)
    found = {preflight.status_code == 200, posted.status_code == 200}
    found.add(posted.headers.get("access-control-allow-origin") == origin)
    try:
        with client.websocket_connect("/stream", headers=headers):
            found.add(True)
    except WebSocketDisconnect:
        found.add(False)
    return found


@pytest.mark.parametrize("origin", ALLOWED)
def test_listed_origin_is_accepted_everywhere(origin: str) -> None:
    assert answers(SETTING, origin) == {True}


@pytest.mark.parametrize("origin", REFUSED)
def test_unlisted_origins_are_refused_everywhere(origin: str) -> None:
    assert answers(SETTING, origin) == {False}


OWN_ORIGIN = {
    None: True,
    "http://studio.example:7860": True,
    "https://studio.example:7860": True,
    "null": False,
    "HTTP://Studio.Example:7860": True,
    "http://studio.example": False,
    "http://studio.example:7861": False,
    "http://studio.example:78600": False,
    "http://studio.example:port": False,
    "ftp://studio.example:7860": False,
    "studio.example:7860": False,
    "http://studio.example:7860/path": False,
    "http://[::1": False,
    "http://studio.example:7860.evil.example": False,
    "http://evil.example": False,
    "http://evil.example/studio.example:7860": False,
    "http://studio.example:7860@evil.example": False,
    "file://studio.example:7860": False,
    "app://obsidian.md": False,
    "chrome-extension://abcdefghijklmnop": False,
    "tauri://localhost": False,
    "https://studio.example:7860, https://evil.example": False,
    "": False,
}


@pytest.mark.parametrize(("origin", "allowed"), OWN_ORIGIN.items())
def test_port_accepts_only_its_own_origin_by_default(origin: str | None, allowed: bool) -> None:
    headers = {"host": "studio.example:7860"} | ({} if origin is None else {"origin": origin})
    assert may_use(Headers(headers)) is allowed


@pytest.mark.parametrize(
    ("setting", "origin", "allowed"),
    [
        ("null", "null", True),
        ("null", "https://a.example", False),
        ("*", "null", True),
        ("*", "app://anything", True),
        ("https://*", "https://a.example", True),
        ("https://*", "http://a.example", False),
    ],
)
def test_null_and_wildcard_settings_allow_their_origins_only(setting: str, origin: str, allowed: bool) -> None:
    assert answers(setting, origin) == {allowed}


@pytest.mark.parametrize(
    "entry",
    ["app.example", "https://", "https://a/path", "https://*example.org", "https://a.*", "://a", "https://a:port",
     "https://a.example https://b.example", "*.example.org", "https://*.*", "javascript:alert(1)"],
)  # fmt: skip
def test_invalid_origin_error_contains_the_entry(entry: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Origins(f"https://app.example, {entry}")
    assert "VOICEWRIGHT_ORIGINS" in str(caught.value)
    assert repr(entry) in str(caught.value)


def test_error_about_an_international_name_asks_for_punycode() -> None:
    with pytest.raises(InvalidSetting, match=r"Punycode \(xn--"):
        Origins("https://bücher.example")


async def test_refusal_of_an_origin_names_the_setting() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    door = RequestGuard(Starlette(), ServerSettings(), Hosts("*", "127.0.0.1"), Origins())
    headers = [(b"host", b"a"), (b"origin", b"app://obsidian.md")]
    scope = {"type": "http", "method": "POST", "path": "/speak", "headers": headers, "client": ("127.0.0.1", 1)}
    await door(scope, receive, send)
    assert b"VOICEWRIGHT_ORIGINS" in bytes(sent[-1]["body"])
