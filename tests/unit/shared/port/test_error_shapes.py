"""Tests that errors of the middleware have the error format of the requested route's API."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from runtime.errors import UnsupportedLanguage
from runtime.server.app import create_app
from runtime.server.engine_host import EngineHost
from runtime.server.http.access import AccessControl
from runtime.server.http.keys import KeyRing, TicketStore
from runtime.server.speech_engine import Progress, SpeechEngine
from runtime.settings import Limits, ServerSettings, Settings
from runtime.shared.port.errors import format_error, unknown_route, unmatched_route_error
from runtime.shared.port.origins import ANY, Hosts, RequestGuard
from studio.relay.relay import Relay
from studio.runtimes.given_runtime import GivenRuntime
from studio.settings import VisitSettings
from studio.visitors.limits import Accounts, VisitLimits
from studio.visitors.visitors import Visitors
from tests.support.library import MemoryLibrary

CARTESIA = ("/tts/bytes", "/tts/sse", "/tts/none", "/voices", "/voices/x", "/pronunciation-dicts/x")
ELEVENLABS = ("/v1/text-to-speech/x/stream", "/v1/voices/x", "/v2/voices", "/v1/user", "/v1/pronunciation-dictionaries")
OPENAI = ("/v1/audio/speech", "/v1/models", "/v1/none", "/none", "/ttsbytes")
PATHS = [
    *((path, lambda answer: answer["error_code"]) for path in CARTESIA),
    *((path, lambda answer: answer["detail"]["status"]) for path in ELEVENLABS),
    *((path, lambda answer: answer["error"]["code"]) for path in OPENAI),
]
EachPath = pytest.mark.parametrize(("path", "code_of"), PATHS, ids=[path for path, _ in PATHS])
CodeOf = Callable[[dict[str, Any]], str]


def no_engine(settings: Settings, progress: Progress) -> SpeechEngine:
    raise AssertionError("nothing is loaded here")


def host(**server: Any) -> EngineHost:
    limits = Limits(max_config_bytes=2048, max_upload_bytes=1024)
    return EngineHost(Settings(server=ServerSettings(**server), limits=limits), no_engine, MemoryLibrary())


async def asked(app: ASGIApp, path: str, method: str = "POST", **kwargs: Any) -> httpx.Response:
    transport = httpx.ASGITransport(app, client=("192.0.2.7", 5000))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.request(method, path, **kwargs)


@EachPath
async def test_unrouted_requests_get_the_error_format_of_their_api_on_both_ports(path: str, code_of: CodeOf) -> None:
    async def none(request: Request) -> Response:
        return unmatched_route_error([], request.scope)

    app = Starlette()
    app.add_route("/{path:path}", none, methods=["GET"])
    full = RequestGuard(app, settings=ServerSettings(max_connections=0), hosts=Hosts(ANY, "127.0.0.1"))
    answer = await asked(full, path, "GET")
    assert (answer.status_code, code_of(answer.json())) == (503, "too_many_connections")
    assert answer.headers["retry-after"]
    door = RequestGuard(app, settings=ServerSettings(), hosts=Hosts(ANY, "127.0.0.1"))
    assert code_of((await asked(door, path, headers={"origin": "http://elsewhere.example"})).json()) == "origin_refused"
    assert code_of((await asked(door, path, "GET")).json()) == "unknown_route"


@EachPath
async def test_runtime_access_control_uses_the_error_format_of_the_api(path: str, code_of: CodeOf) -> None:
    def access(**server: Any) -> AccessControl:
        behind = host(**server)
        return AccessControl(Starlette(), behind, KeyRing(behind.settings.server), TicketStore(30.0))

    assert code_of((await asked(access(api_keys="key"), path)).json()) == "unauthorized"
    assert code_of((await asked(access(), path, content=b"x" * 80_000)).json()) == "message_too_large"
    few = access(requests_per_minute=1)
    codes = [(await asked(few, path)).status_code, code_of((await asked(few, path)).json())]
    assert codes[1] == "rate_limited"


@EachPath
async def test_studio_limits_and_relay_use_the_error_format_of_the_api(path: str, code_of: CodeOf) -> None:
    relay = Relay(GivenRuntime("http://127.0.0.1:1"))
    app = Starlette()
    app.add_route("/{path:path}", relay.http, methods=["POST"])
    unavailable = await asked(app, path, json={})
    assert code_of(unavailable.json()) == "runtime_unavailable"
    # The studio did not start this runtime, so the message must not say that the runtime restarts.
    assert "start" not in unavailable.text
    if path.startswith(("/v1/", "/tts/")):
        settings = VisitSettings(visitor_requests=0)
        limits = Middleware(
            VisitLimits,
            accounts=Accounts(Visitors(has_separate_histories=True), 8),
            settings=settings,
            must_sign_in=False,
        )
        assert code_of((await asked(Starlette(middleware=[limits]), path, json={})).json()) == "rate_limited"


@pytest.mark.parametrize(
    ("path", "code_of"), [row for row in PATHS if row[0] in {"/tts/bytes", "/v1/text-to-speech/x/stream", "/none"}]
)
async def test_errors_without_a_handler_contain_the_request_id(path: str, code_of: CodeOf) -> None:
    app = create_app(host())
    answer = await asked(app, path, "DELETE")
    body = answer.json()
    assert code_of(body) == ("unknown_route" if path == "/none" else "method_not_allowed")
    reported = body.get("request_id") or body.get("detail", {}).get("request_id")
    assert reported == (None if path == "/none" else answer.headers["x-request-id"])


def test_error_contains_the_elevenlabs_field_name() -> None:
    problem = UnsupportedLanguage(param="language", known="english")
    reported = format_error(problem, "/v1/text-to-speech/x", "req_1")["detail"]
    assert isinstance(reported, dict)
    assert (reported["param"], reported["request_id"]) == ("language_code", "req_1")


async def test_cartesia_key_is_accepted_in_the_url_of_all_its_routes() -> None:
    behind = host(api_keys="key")
    app = create_app(behind)
    for path in ("/voices", "/pronunciation-dicts", "/tts/none"):
        assert (await asked(app, f"{path}?api_key=key", "GET")).status_code != 401
        assert (await asked(app, f"{path}?api_key=other", "GET")).status_code == 401
    assert (await asked(app, "/v1/models?api_key=key", "GET")).status_code == 401


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/audio/speech", "/v1/audio/speech"),
        ("/v1/v1/audio/speech", "/v1/audio/speech"),
        ("/v1/v1/v1/audio/speech/batch", "/v1/audio/speech/batch"),
        ("/models/x%0d", "/v1/models"),
        ("/text-to-speech/clara/stream", "/v1/text-to-speech"),
        ("/v1/audio/speech/other", None),
        ("/v1/audio/speeches", None),
        ("/v1/v1", None),
        ("/audio", None),
    ],
)
def test_path_error_suggests_the_correct_number_of_v1_parts(path: str, meant: str | None) -> None:
    error = unknown_route(path)
    message = str(error)
    assert str(pickle.loads(pickle.dumps(error))) == message == error.sentence.format(**error.public_facts)
    assert "There is no such route" in message
    assert (f"The path is {meant}, with /v1 once" in message) if meant else "with /v1 once" not in message
