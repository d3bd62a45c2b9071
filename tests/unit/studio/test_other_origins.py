"""Tests for the setting VOICEWRIGHT_ORIGINS in the studio: CORS for runtime routes only."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from runtime.settings import ServerSettings
from tests.support.studio_port import studio_port

NO_RUNTIME = "http://127.0.0.1:1"
RUNTIME_ROUTES = (
    "/v1/audio/speech",
    "/v1/text-to-speech/angus",
    "/v2/voices",
    "/tts/bytes",
    "/voices",
    "/pronunciation-dicts",
)
OWN_ROUTES = ("/studio/scripts", "/studio/host/load", "/gradio_api/call/speak", "/mcp", "/")
OURS, EVIL = "app://obsidian.md", "https://evil.example"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with studio_port(NO_RUNTIME, server=ServerSettings(origins=f"{OURS}, https://*.example.org")) as port:
        yield port


@pytest.fixture
def client(port: int) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        yield client


def preflight(client: httpx.Client, path: str, origin: str) -> httpx.Response:
    return client.options(path, headers={"origin": origin, "access-control-request-method": "POST"})


def code(response: httpx.Response) -> str:
    error = response.json().get("error") or response.json()
    return str(error.get("error_code") or error.get("code") or error["detail"]["status"])


@pytest.mark.parametrize("path", RUNTIME_ROUTES)
@pytest.mark.parametrize("origin", [OURS, "https://a.example.org"])
def test_allowed_origin_may_use_the_runtime_routes(client: httpx.Client, path: str, origin: str) -> None:
    asked = preflight(client, path, origin)
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, origin)
    posted = client.post(path, headers={"origin": origin}, json={})
    assert posted.headers["access-control-allow-origin"] == origin
    assert code(posted) != "origin_refused"


@pytest.mark.parametrize("path", RUNTIME_ROUTES)
@pytest.mark.parametrize("origin", [EVIL, "null"])
def test_unlisted_origins_are_refused(client: httpx.Client, path: str, origin: str) -> None:
    assert preflight(client, path, origin).status_code == 400
    posted = client.post(path, headers={"origin": origin}, json={})
    assert (posted.status_code, code(posted)) == (403, "origin_refused")
    assert "access-control-allow-origin" not in posted.headers


@pytest.mark.parametrize("path", OWN_ROUTES)
def test_studio_routes_are_for_its_own_page_only(client: httpx.Client, path: str) -> None:
    asked = preflight(client, path, OURS)
    posted = client.post(path, headers={"origin": OURS}, json={})
    assert (posted.status_code, code(posted)) == (403, "origin_refused")
    assert all("access-control-allow-origin" not in answer.headers for answer in (asked, posted))


@pytest.mark.parametrize("path", ["/v1/audio/speech/stream", "/tts/websocket"])
async def test_websockets_accept_the_same_origins_as_http_routes(port: int, path: str) -> None:
    url = f"ws://127.0.0.1:{port}{path}"

    for origin in (OURS, f"http://127.0.0.1:{port}"):
        async with connect(url, origin=origin) as socket:  # type: ignore[arg-type]  # websockets' own string type
            assert "runtime_unavailable" in json.dumps(json.loads(await socket.recv()))
    with pytest.raises(InvalidStatus) as refusal:
        await connect(url, origin=EVIL)  # type: ignore[arg-type]
    assert refusal.value.response.status_code == 403
