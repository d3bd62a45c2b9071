"""Tests for the page's security headers."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from studio.page.security_headers import SecurityHeaders, nonce_of


def page(request: Request) -> Response:
    return HTMLResponse(f"<p>{nonce_of(request.scope)}</p>")


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
def test_only_allowed_pages_may_frame_the_studio(ancestors: str, env: dict[str, str], framed: str) -> None:
    assert framed in client(ancestors, env).get("/").headers["content-security-policy"]


def test_inline_scripts_require_the_nonce_of_their_response() -> None:
    first, second = (client().get("/") for _ in range(2))
    policy = first.headers["content-security-policy"]
    scripts = next(part for part in policy.split("; ") if part.startswith("script-src"))
    nonce = first.text.removeprefix("<p>").removesuffix("</p>")
    assert len(nonce) >= 22
    assert f"'nonce-{nonce}'" in scripts
    assert "'unsafe-inline'" not in scripts
    assert nonce not in second.headers["content-security-policy"]


def test_page_connects_only_to_its_own_host() -> None:
    policy = client().get("/").headers["content-security-policy"]
    assert "connect-src 'self' data: blob:" in policy.split("; ")


def test_content_security_policy_of_a_route_is_kept_and_data_has_none() -> None:
    assert client().get("/own").headers["content-security-policy"] == "default-src 'none'"
    answer = client().get("/data")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "content-security-policy" not in answer.headers
