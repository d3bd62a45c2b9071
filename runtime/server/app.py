"""The routes. What they mean is in docs/api.md; how a socket speaks, in session.py."""

from __future__ import annotations

import asyncio
import secrets
from importlib.metadata import PackageNotFoundError, version

from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from runtime.errors import GenerationFailed, MethodNotAllowed, SpeechError, SubprotocolRequired, UnknownRoute
from runtime.server import replies
from runtime.server.host import Host
from runtime.server.replies import PROTOCOL, Reply
from runtime.server.session import Session
from runtime.server.socket import SpeechSocket
from runtime.server.voices_routes import voices_router

GET = ["GET", "HEAD"]


def package_version() -> str:
    try:
        return version("voicewright")
    except PackageNotFoundError:  # run from a source tree that was not installed
        return "unknown"


def create_app(host: Host) -> FastAPI:
    """Return the ASGI application around a host."""
    app = FastAPI(title="Voicewright runtime", version=package_version())

    @app.api_route("/health", methods=GET)
    async def health() -> JSONResponse:
        """Whether the process lives: false once its engine has died."""
        if host.is_dead and host.problem is not None:
            return refusal(host.problem)
        return JSONResponse({"status": "ok"})

    @app.api_route("/ready", methods=GET)
    async def ready() -> JSONResponse:
        """Whether speech would be made now, and how busy the engine is."""
        if host.problem is not None:
            return refusal(host.problem)
        load = host.engine.load()
        return JSONResponse({"status": "ready", "slots": load.slots, "active": load.active, "waiting": load.waiting})

    @app.api_route("/v1/models", methods=GET)
    async def models() -> Reply:
        """The loaded checkpoints; none while they load."""
        cards = host.engine.cards if host.problem is None else ()
        return {"object": "list", "data": [replies.card(card) for card in cards]}

    @app.websocket("/v1/audio/speech/stream")
    async def speech_stream(websocket: WebSocket) -> None:
        """Speech. Without our subprotocol there is no dialect to speak yet."""
        if PROTOCOL not in websocket.scope["subprotocols"]:
            await websocket.accept()
            await turn_away(websocket, SubprotocolRequired(protocol=PROTOCOL))
            return
        await websocket.accept(subprotocol=PROTOCOL)
        if host.problem is not None:
            await turn_away(websocket, host.problem)
        else:
            await speak(websocket, host)

    app.include_router(voices_router(host))

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


async def speak(websocket: WebSocket, host: Host) -> None:
    """Run a session on an accepted socket."""
    session = Session(
        limits=host.settings.limits,
        cards=host.engine.cards,
        session_id=secrets.token_hex(8),
        server=package_version(),
        clock=asyncio.get_running_loop().time,
    )
    socket = SpeechSocket(websocket, session, host.engine, host.decoders, host.settings)
    host.sockets[socket] = asyncio.current_task()
    try:
        await socket.run()
    finally:
        del host.sockets[socket]


async def turn_away(websocket: WebSocket, error: SpeechError) -> None:
    """Say why, then close an accepted socket."""
    await websocket.send_json(replies.error(error))
    await websocket.close(error.outcome.close, error.code)


def refusal(error: SpeechError, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error as OpenAI's clients read it."""
    outcome = error.outcome
    body = {
        "message": str(error),
        "type": "server_error" if outcome.http >= 500 else "invalid_request_error",
        "param": error.param,
        "code": error.code,
        "retryable": outcome.retryable,
    }
    return JSONResponse({"error": body}, status_code=outcome.http, headers=headers)
