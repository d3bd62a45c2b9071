"""Tests for the HTTP routes of Gradio and MCP.

Only listed routes are public. Invalid requests are refused.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.app import App

JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/?deep_link=..", 200),
        ("/?page=nothing", 200),
        ("/config?deep_link=%00", 200),
        ("/pwa_icon", 200),
        ("/pwa_icon/5", 404),
        ("/gradio_api/deep_link?session_hash=x", 404),
        ("/gradio_api/file=/etc/passwd", 404),
        ("/gradio_api/proxy=http://127.0.0.1/", 404),
        ("/monitoring", 404),
        ("/studio/nothing", 404),
    ],
)
def test_gradio_routes_are_served_or_blocked_as_listed(app: App, path: str, status: int) -> None:
    assert httpx.get(app.url + path, trust_env=False).status_code == status


def test_route_description_lists_only_open_routes(app: App) -> None:
    paths = httpx.get(f"{app.url}/openapi.json", trust_env=False).json()["paths"]
    page = httpx.get(f"{app.url}/openapi", trust_env=False).text
    assert "/metrics" not in paths
    assert "/metrics" not in page
    assert "/docs" not in paths  # The studio serves its own pages under the path /docs.
    for path in (
        "/v1/audio/speech",
        "/v1/audio/voices/{name}/file",
        "/tts/bytes",
        "/voices",
        "/openapi.json",
        "/ready",
    ):
        assert path in paths
        assert path in page
    read = [path for path, operations in paths.items() if "get" in operations and "{" not in path]
    statuses = {path: httpx.get(app.url + path, trust_env=False).status_code for path in read}
    assert set(statuses.values()) == {200}, statuses


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/gradio_api/queue/join", b'{"data": [], "fn_index": 99, "session_hash": "s"}', 400),
        ("/gradio_api/queue/join", b'{"data": [], "fn_index": true, "session_hash": "s"}', 400),
        ("/gradio_api/queue/join", b"[" * 100_000, 400),
        ("/gradio_api/component_server", b'{"data": [], "component_id": 9, "fn_name": "x", "session_hash": "s"}', 404),
        ("/gradio_api/call/nothing", b'{"data": []}', 404),
        ("/gradio_api/call/speak", b'{"data": ["\xff"]}', 400),
        ("/gradio_api/call/speak", b'{"data": []}', 400),
        ("/gradio_api/call/speak", b'{"data": "x"}', 400),
        ("/gradio_api/call/list_voices", b'{"data": [1, 2]}', 400),
        ("/gradio_api/queue/join", b'{"data": [], "fn_index": 0, "session_hash": "s"}', 400),
        ("/gradio_api/run/speak", b'{"data": []}', 404),
        ("/gradio_api/upload", b"", 404),
        ("/mcp", b"[" * 100_000, 400),
        ("/mcp", b'{"a": "\xff"}', 400),
        ("/mcp", b'{"a": 1}', 400),
    ],
)
def test_malformed_requests_are_refused_without_a_server_error(app: App, path: str, body: bytes, status: int) -> None:
    answer = httpx.post(app.url + path, content=body, headers=JSON, trust_env=False)
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize("path", ["/gradio_api/queue/join", "/gradio_api/call/speak", "/gradio_api/cancel", "/mcp"])
def test_foreign_origins_and_host_names_are_refused(app: App, path: str) -> None:
    fields: dict[str, Any] = {"data": [], "fn_index": 0, "session_hash": "s"}
    for header, code in (
        ({"origin": "http://evil.example"}, "origin_refused"),
        ({"host": "evil.example"}, "host_refused"),
    ):
        answer = httpx.post(app.url + path, json=fields, headers=header, trust_env=False)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, code)
