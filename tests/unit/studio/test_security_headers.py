"""Browsers are told who may frame the page and what it may load."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from studio.security_headers import SecurityHeaders


def page(_: Request) -> Response:
    return HTMLResponse("<p>page</p>")


def own(_: Request) -> Response:
    return HTMLResponse("<p>own</p>", headers={"content-security-policy": "default-src 'none'"})


def data(_: Request) -> Response:
    return JSONResponse({})


def client(ancestors: str = "", env: dict[str, str] | None = None) -> TestClient:
    app = Starlette(routes=[Route("/", page), Route("/own", own), Route("/data", data)])
    app.add_middleware(SecurityHeaders, ancestors=ancestors, env=env or {})
    return TestClient(app)


@pytest.mark.parametrize(
    ("ancestors", "env", "framed"),
    [
        ("", {}, "frame-ancestors 'self'"),
        ("https://example.org", {}, "frame-ancestors 'self' https://example.org"),
        ("", {"SPACE_ID": "a/b"}, "frame-ancestors 'self' https://huggingface.co"),
    ],
)
def test_only_named_pages_may_frame_the_studio(ancestors: str, env: dict[str, str], framed: str) -> None:
    assert framed in client(ancestors, env).get("/").headers["content-security-policy"]


def test_a_route_keeps_its_own_policy_and_data_has_none() -> None:
    assert client().get("/own").headers["content-security-policy"] == "default-src 'none'"
    answer = client().get("/data")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "content-security-policy" not in answer.headers
