"""Tests for OpenID sign-in with a minimal identity provider."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from runtime.errors import InvalidSetting
from studio.server import _sign_in
from studio.settings import StoreSettings, StudioSettings, VisitSettings
from studio.visitors.sign_in import SignIn
from studio.visitors.visitors import Visitors
from tests.unit.studio.serving import served

CLIENT, SECRET = "the-studio", "between us"


class Provider:
    """Identity provider that accepts every user.

    If ``lies`` is true, its token is issued for another audience.
    """

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self.asked: dict[str, dict[str, str]] = {}
        self.lies = False
        self.url = ""

    def routes(self) -> list[Route]:
        return [
            Route("/.well-known/openid-configuration", self.discover),
            Route("/authorize", self.authorize),
            Route("/token", self.token, methods=["POST"]),
            Route("/keys", self.keys),
        ]

    async def discover(self, _: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
                "id_token_signing_alg_values_supported": ["RS256"],
            }
        )

    async def authorize(self, request: Request) -> Response:
        query = dict(request.query_params)
        assert (query["client_id"], query["response_type"], query["code_challenge_method"]) == (CLIENT, "code", "S256")
        code = secrets.token_urlsafe(8)
        self.asked[code] = query
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}")

    async def token(self, request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        query = self.asked.pop(form["code"])
        response = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
        assert response == f"{CLIENT}:{SECRET}".replace(" ", "+") or response == f"{CLIENT}:{SECRET}"
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == query["code_challenge"]
        claims = {
            "iss": self.url,
            "aud": "another" if self.lies else CLIENT,
            "sub": "42",
            "preferred_username": "clara",
            "nonce": query["nonce"],
            "iat": int(time.time()),
            "exp": int(time.time()) + 60,
        }
        signed = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.key)
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": signed})

    async def keys(self, _: Request) -> Response:
        return JSONResponse(KeySet([self.key]).as_dict(private=False))


@asynccontextmanager
async def studio(provider: Provider) -> AsyncIterator[httpx.AsyncClient]:
    """Yield an HTTP client of a studio with sign-in.

    The studio's only other route returns the signed-in visitor.
    """
    async with served(provider.routes()) as elsewhere:
        provider.url = f"http://{elsewhere}"
        sign_in = SignIn(
            {"OPENID_PROVIDER_URL": provider.url, "OAUTH_CLIENT_ID": CLIENT, "OAUTH_CLIENT_SECRET": SECRET}
        )
        visitors = Visitors(has_separate_histories=True, member_of=sign_in.member_of)

        async def me(request: Request) -> Response:
            visitor = visitors.identify(request)
            return JSONResponse({"kind": visitor.kind, "owner": visitor.owner, "name": visitor.name})

        app = Starlette(routes=[Route("/", me)])
        sign_in.add_to(app)
        async with (
            served([Mount("/", app)]) as address,
            httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, follow_redirects=True) as client,
        ):
            yield client


async def who(client: httpx.AsyncClient) -> dict[str, Any]:
    response: dict[str, Any] = (await client.get("/")).json()
    return response


async def test_visitor_can_sign_in_and_out() -> None:
    async with studio(Provider()) as client:
        assert (await who(client))["kind"] == "visitor"
        member = {"kind": "member", "owner": "member:42", "name": "clara"}
        # The client follows the redirects to the provider and back to the page.
        assert (await client.get("/studio/sign-in")).json() == member
        assert await who(client) == member
        async with httpx.AsyncClient(base_url=client.base_url, trust_env=False) as other:
            assert (await who(other))["kind"] == "visitor"
        foreign = await client.post("/studio/sign-out", headers={"origin": "http://elsewhere.example"})
        assert foreign.json()["error"]["code"] == "origin_refused"
        assert (await client.post("/studio/sign-out")).json()["kind"] == "visitor"


async def test_unrequested_callback_is_refused() -> None:
    async with studio(Provider()) as client:
        refused = await client.get("/studio/signed-in", params={"code": "x", "state": "y"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (502, "sign_in_failed")
        assert (await who(client))["kind"] == "visitor"


async def test_token_for_another_audience_is_refused() -> None:
    provider = Provider()
    provider.lies = True
    async with studio(provider) as client:
        refused = await client.get("/studio/sign-in")
        assert (refused.status_code, refused.json()["error"]["code"]) == (502, "sign_in_failed")
        assert (await who(client))["kind"] == "visitor"


async def test_unreachable_provider_is_reported_in_one_sentence() -> None:
    provider = Provider()
    async with studio(provider) as client:
        sign_in = SignIn(
            {"OPENID_PROVIDER_URL": "http://127.0.0.1:1", "OAUTH_CLIENT_ID": "a", "OAUTH_CLIENT_SECRET": "b"}
        )
        app = Starlette()
        sign_in.add_to(app)
        async with served([Mount("/", app)]) as address:
            refused = await client.get(f"http://{address}/studio/sign-in")
        assert (refused.status_code, refused.json()["error"]["code"]) == (502, "sign_in_failed")
        assert "does not respond" in refused.json()["error"]["message"]


def test_invalid_configuration_is_reported_at_startup(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENID_PROVIDER_URL", "OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)
    each = StoreSettings(visitors="each")
    assert _sign_in(StudioSettings(store=each)) is None
    required = VisitSettings(sign_in="required")
    with pytest.raises(InvalidSetting, match="OPENID_PROVIDER_URL"):
        _sign_in(StudioSettings(store=each, visits=required))
    assert _sign_in(StudioSettings(visits=required)) is None  # By default, the store does not distinguish visitors.
    monkeypatch.setenv("OPENID_PROVIDER_URL", "https://provider.example")
    with pytest.raises(InvalidSetting, match="OAUTH_CLIENT_ID"):
        _sign_in(StudioSettings(store=each))
    assert _sign_in(StudioSettings(store=each, visits=VisitSettings(sign_in="off"))) is None
