"""The routes. What they mean is in docs/api.md; how a socket speaks, in session.py; who comes in, in gate.py."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from runtime.errors import GenerationFailed, MethodNotAllowed, SpeechError, UnknownRoute
from runtime.server import cartesia_bytes, metrics, openai, protocol, replies, streams
from runtime.server.gate import Gate, Tickets
from runtime.server.host import Host
from runtime.server.refusals import refusal
from runtime.server.voices_routes import voices_router
from runtime.version import package_version

GET = ["GET", "HEAD"]


def create_app(host: Host) -> FastAPI:
    """Return the ASGI application around a host."""
    # No /docs: its page comes from other people's servers. docs/api.md and docs/protocol.md are ours.
    app = FastAPI(title="Voicewright runtime", version=package_version(), openapi_url=None)
    tickets = Tickets(host.settings.server.ticket_s)
    app.add_middleware(Gate, host=host, tickets=tickets)
    if origins := [word.strip() for word in host.settings.server.origins.split(",") if word.strip()]:
        app.add_middleware(CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["*"])

    @app.api_route("/health", methods=GET)
    async def health() -> JSONResponse:
        """Whether the engine lives: false once its thread has died."""
        if host.is_dead and host.problem is not None:
            return refusal(host.problem)
        return JSONResponse({"status": "ok"})

    @app.api_route("/ready", methods=GET)
    async def ready() -> JSONResponse:
        """Whether speech would be made now, and how busy the engine is or how far its loading."""
        if host.problem is not None:
            loading = asdict(host.progress) if host.status == "loading" else {}
            return refusal(host.problem, status=host.status, **loading)
        load = host.engine.load()
        return JSONResponse({"status": "ready", "slots": load.slots, "active": load.active, "waiting": load.waiting})

    @app.api_route("/metrics", methods=GET)
    async def prometheus() -> Response:
        """Figures for Prometheus."""
        load = host.engine.load() if host.problem is None else None
        return Response(host.metrics.page(load), media_type=metrics.CONTENT_TYPE)

    @app.api_route("/v1/models", methods=GET)
    async def models() -> dict[str, Any]:
        """The loaded checkpoints; none while they load."""
        cards = host.engine.cards if host.problem is None else ()
        return {"object": "list", "data": [replies.card(card) for card in cards]}

    @app.post("/v1/session_ticket")
    async def session_ticket() -> JSONResponse:
        """A key for one WebSocket, that a page may put into its address."""
        body = {"ticket": tickets.issue(), "expires_in_s": tickets.ticket_s}
        return JSONResponse(body, headers={"Cache-Control": "no-store"})

    @app.api_route("/v1/audio/speech/stream/schema", methods=GET)
    async def stream_schema() -> dict[str, Any]:
        """The messages of our WebSocket protocol as JSON schema."""
        return protocol.schema()

    streams.add_routes(app, host)
    openai.add_routes(app, host)
    cartesia_bytes.add_routes(app, host)
    app.include_router(voices_router(host))

    @app.exception_handler(SpeechError)
    async def refused(_: Request, error: SpeechError) -> JSONResponse:
        host.refused(error)
        return refusal(error)

    @app.exception_handler(HTTPException)
    async def unrouted(_: Request, exception: HTTPException) -> JSONResponse:
        if exception.status_code == 405:
            allowed = (exception.headers or {}).get("Allow", "GET")
            return refusal(MethodNotAllowed(allowed=allowed), {"Allow": allowed})
        return refusal(UnknownRoute())

    @app.exception_handler(Exception)
    async def failed(_: Request, __: Exception) -> JSONResponse:
        return refusal(GenerationFailed())  # the server logs the exception itself

    return app
