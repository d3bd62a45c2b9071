"""ASGI application of the runtime with all routes and middleware (see docs/api.md)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send
from typing_extensions import TypedDict

from runtime.errors import GenerationFailed, SpeechError
from runtime.server import metrics, websocket_routes
from runtime.server.cartesia import pronunciation_routes as cartesia_pronunciations
from runtime.server.cartesia import speech_routes as cartesia_speech
from runtime.server.cartesia import voices_routes as cartesia_voices
from runtime.server.descriptions import model_entry
from runtime.server.elevenlabs import catalogue_routes as elevenlabs_catalogue
from runtime.server.elevenlabs import socket_routes as elevenlabs_sockets
from runtime.server.elevenlabs import speech_routes as elevenlabs_speech
from runtime.server.elevenlabs import user_routes as elevenlabs_user
from runtime.server.elevenlabs.pronunciations import routes as elevenlabs_pronunciations
from runtime.server.elevenlabs.responses import ElevenLabsModel
from runtime.server.engine_host import EngineHost
from runtime.server.http.access import AccessControl
from runtime.server.http.keys import KeyRing, SharedTicketStore, TicketStore
from runtime.server.http.request_ids import HEADER, RequestIds, request_id_of
from runtime.server.native import protocol_page
from runtime.server.openai import routes as openai_routes
from runtime.server.openai.responses import ModelList
from runtime.server.openapi import routes as openapi_routes
from runtime.server.openapi.operations import UNREADY, describe_operation
from runtime.server.pronunciations import routes as pronunciation_routes
from runtime.server.voices.routes import voices_router
from runtime.shared.port.errors import error_response, refuse_unknown_websocket, unmatched_route_error
from runtime.shared.port.origins import ANY, Cors, Hosts, Origins, RequestGuard
from runtime.version import package_version

GET = ["GET", "HEAD"]

DIALECTS = [  # Modules whose routes implement the supported APIs.
    *(websocket_routes, openai_routes),
    *(cartesia_speech, cartesia_voices, cartesia_pronunciations),
    *(elevenlabs_sockets, elevenlabs_speech, elevenlabs_catalogue, elevenlabs_user, elevenlabs_pronunciations),
    pronunciation_routes,
]


class Health(TypedDict):
    """Response of /health while the engine is alive or the checkpoints are loading."""

    status: Literal["ok"]


class Ready(TypedDict):
    """Response of /ready: engine load, and addresses of non-HTTP ports by protocol."""

    status: Literal["ready"]
    slots: int
    active: int
    waiting: int
    waiting_for_text: int
    short_of_text: int  # Former name of `waiting_for_text`, which is deprecated.
    ports: dict[str, str]


class Ticket(TypedDict):
    """Response with a short-lived ticket that opens one WebSocket."""

    ticket: str
    expires_in_s: float


def create_app(host: EngineHost) -> FastAPI:
    """Create the ASGI application that serves the engine of `host`."""
    # FastAPI's routes of the OpenAPI document are off: the package `openapi` adds the bodies that routes parse
    # themselves, and FastAPI's page loads files from other servers. Redirects of trailing slashes are off, because they
    # would send the clients of a proxy to the address of this port.
    app = FastAPI(title="Voicewright runtime", version=package_version(), openapi_url=None, redirect_slashes=False)
    server = host.settings.server
    keys = KeyRing(server)
    tickets = SharedTicketStore(server.ticket_s, keys) if server.shared_tickets else TicketStore(server.ticket_s)
    # If API keys are required, any host name is accepted, because a page that uses DNS rebinding has no key.
    origins = Origins(server.origins)
    hosts = Hosts(ANY if keys.is_needed else server.hosts, server.host)
    app.add_middleware(AccessControl, host=host, keys=keys, tickets=tickets)
    app.add_middleware(RequestGuard, settings=server, hosts=hosts, origins=origins, refused=host.metrics.count_refusal)
    if origins:
        app.add_middleware(Cors, origins=origins)
    app.add_middleware(RequestIds)  # The middleware that is added last is the outermost one.

    @app.api_route("/health", methods=GET)
    @describe_operation(response=Health, refusals=UNREADY, is_open=True)
    async def health() -> JSONResponse:
        """Return "ok" if the engine is alive or its checkpoints are loading, otherwise an error."""
        if host.is_dead and host.problem is not None:
            return error_response(host.problem)
        return JSONResponse({"status": "ok"})

    @app.api_route("/ready", methods=GET)
    @describe_operation(response=Ready, refusals=UNREADY, is_open=True)
    async def ready() -> JSONResponse:
        """Return the engine's load, or an error (with progress) while the engine is not ready."""
        if host.problem is not None:
            loading = asdict(host.progress) if host.status == "loading" else {}
            return error_response(host.problem, status=host.status, **loading)
        load = host.engine.load()
        figures = {name: getattr(load, name) for name in ("slots", "active", "waiting", "waiting_for_text")}
        figures["short_of_text"] = load.waiting_for_text
        return JSONResponse({"status": "ready", **figures, "ports": host.ports})

    @app.api_route("/metrics", methods=GET)
    @describe_operation(binary_types=(metrics.CONTENT_TYPE.partition(";")[0],))
    async def prometheus() -> Response:
        """Return all metrics in the Prometheus text format."""
        load = host.engine.load() if host.problem is None else None
        return Response(host.metrics.format_page(load), media_type=metrics.CONTENT_TYPE)

    @app.api_route("/v1/models", methods=GET)
    @describe_operation(response=ModelList | list[ElevenLabsModel])
    async def models(request: Request) -> Any:
        """List the checkpoints in OpenAI's format, or in ElevenLabs' format with `xi-api-key`."""
        cards = host.engine.cards if host.problem is None else ()
        if elevenlabs_catalogue.KEY_HEADER in request.headers:
            return elevenlabs_catalogue.models(cards, host.settings.limits)
        return {"object": "list", "data": [model_entry(card) for card in cards]}

    @app.post("/v1/session_ticket")
    @describe_operation(response=Ticket)
    async def session_ticket() -> JSONResponse:
        """Return a short-lived ticket that replaces the API key in the URL of one WebSocket."""
        body = {"ticket": tickets.issue(), "expires_in_s": tickets.ticket_s}
        return JSONResponse(body, headers={"Cache-Control": "no-store"})

    @app.api_route("/v1/audio/speech/stream/schema", methods=GET)
    @describe_operation(response=dict[str, Any])
    async def stream_schema() -> dict[str, Any]:
        """Return the JSON schema of all messages in the native WebSocket protocol."""
        return protocol_page.schema()

    for dialect in DIALECTS:
        dialect.add_routes(app, host)
    app.include_router(voices_router(host))
    openapi_routes.add_routes(app, host)

    @app.exception_handler(SpeechError)
    async def refused(_: Request, error: SpeechError) -> JSONResponse:
        host.count_refusal(error)
        return error_response(error)

    @app.exception_handler(HTTPException)
    async def not_routed(request: Request, _: HTTPException) -> Response:
        return unmatched_route_error(app.router.routes, request.scope)

    @app.exception_handler(Exception)
    async def failed(request: Request, _: Exception) -> JSONResponse:
        # Uvicorn logs the exception. The middleware does not process this response, so the request id is set here.
        return error_response(GenerationFailed(), {HEADER: request_id_of(request)})

    routed = app.router.default

    async def default(scope: Scope, receive: Receive, send: Send) -> None:
        await (refuse_unknown_websocket if scope["type"] == "websocket" else routed)(scope, receive, send)

    app.router.default = default
    return app
