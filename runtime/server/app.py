"""The routes. What they mean is in docs/api.md; how a socket speaks, in session.py; who comes in, in gate.py."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import FastAPI, Request, Response, WebSocket
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from runtime.errors import GenerationFailed, MethodNotAllowed, SpeechError, SubprotocolRequired, UnknownRoute
from runtime.server import metrics, openai, protocol, replies
from runtime.server.dialect import Dialect
from runtime.server.gate import Gate, Tickets
from runtime.server.host import Host
from runtime.server.refusals import refusal
from runtime.server.replies import PROTOCOL
from runtime.server.session import Session
from runtime.server.socket import SpeechSocket

GET = ["GET", "HEAD"]


def package_version() -> str:
    try:
        return version("voicewright")
    except PackageNotFoundError:  # run from a source tree that was not installed
        return "unknown"


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

    @app.websocket("/v1/audio/speech/stream")
    async def speech_stream(websocket: WebSocket) -> None:
        """Speech. Without our subprotocol there is no dialect to speak yet."""
        if PROTOCOL not in websocket.scope["subprotocols"]:
            await websocket.accept()
            await turn_away(websocket, SubprotocolRequired(protocol=PROTOCOL), host)
            return
        await websocket.accept(subprotocol=PROTOCOL)
        if host.problem is not None:
            await turn_away(websocket, host.problem, host)
        else:
            session_id = new_session_id()
            session = Session(
                limits=host.settings.limits,
                cards=host.engine.cards,
                library=host.library,
                session_id=session_id,
                server=package_version(),
                clock=asyncio.get_running_loop().time,
            )
            await speak(websocket, host, session, name="voicewright", session_id=session_id)

    openai.add_routes(app, host)

    @app.exception_handler(SpeechError)
    async def refused(_: Request, error: SpeechError) -> JSONResponse:
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


def new_session_id() -> str:
    return secrets.token_hex(8)


async def speak(websocket: WebSocket, host: Host, dialect: Dialect, *, name: str, session_id: str) -> None:
    """Run a dialect on an accepted socket; ``name`` is the dialect's, for log and metrics."""
    socket = SpeechSocket(websocket, dialect, host, name=name, session_id=session_id)
    host.sockets[socket] = asyncio.current_task()
    try:
        with host.metrics.session(name):
            await socket.run()
    finally:
        del host.sockets[socket]


async def turn_away(websocket: WebSocket, error: SpeechError, host: Host) -> None:
    """Say why, then close an accepted socket."""
    host.metrics.refused(error.code)
    await websocket.send_json(replies.error(error))
    await websocket.close(error.outcome.close, error.code)
