"""WebSocket routes of the native, vLLM-Omni and Cartesia APIs."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import FastAPI, WebSocket

from runtime.errors import SpeechError, SubprotocolRequired
from runtime.server.cartesia import messages as cartesia_messages
from runtime.server.cartesia.session import CartesiaSession
from runtime.server.connection import Connection, Socket
from runtime.server.engine_host import EngineHost
from runtime.server.native import messages
from runtime.server.native.messages import PROTOCOL
from runtime.server.native.session import NativeSession
from runtime.server.omni import messages as omni_messages
from runtime.server.omni.session import OmniSession
from runtime.server.session.dialect import Dialect
from runtime.server.wire import Reply
from runtime.shared.audio.encoding import Encoder
from runtime.version import package_version


def add_routes(app: FastAPI, host: EngineHost) -> None:
    """Register the WebSocket routes of the native, vLLM-Omni and Cartesia APIs."""

    @app.websocket("/v1/audio/speech/stream")
    async def speech_stream(websocket: WebSocket) -> None:
        """Serve the native protocol, or vLLM-Omni's API if the client requests no subprotocol."""
        offered = websocket.scope["subprotocols"]
        await websocket.accept(subprotocol=PROTOCOL if PROTOCOL in offered else None)
        session_id = new_id()
        if PROTOCOL in offered:
            native = partial(NativeSession, session_id=session_id, server=package_version())
            await open_session(websocket, host, native, messages.error, name="voicewright", session_id=session_id)
        elif offered:
            error = SubprotocolRequired(protocol=PROTOCOL)
            await refuse_socket(websocket, host, error, messages.error(error))
        else:
            omni = partial(OmniSession, open_encoder=partial(Encoder, whole=True))
            await open_session(
                websocket,
                host,
                omni,
                lambda error: omni_messages.error(str(error), error),
                name="omni",
                session_id=session_id,
            )

    @app.websocket("/tts/websocket")
    async def cartesia(websocket: WebSocket) -> None:
        """Serve Cartesia's WebSocket API."""
        await websocket.accept()
        session_id = new_id()
        session = partial(CartesiaSession, session_id=session_id, expiry_s=host.settings.server.cartesia_expiry_s)
        describe_error = partial(cartesia_messages.error, name=None, session_id=session_id)
        await open_session(websocket, host, session, describe_error, name="cartesia", session_id=session_id)


def session_arguments(host: EngineHost, socket: Socket) -> dict[str, Any]:
    """Return the constructor arguments that all session classes have in common.

    Args:
        host: Owner of the engine.
        socket: Socket of the client, whose headers contain the owner of the voices.
    """
    return {
        "limits": host.settings.limits,
        "cards": host.engine.cards,
        "library": host.owner_library(socket.headers),
        "clock": asyncio.get_running_loop().time,
    }


def new_id() -> str:
    """Return a random session id of 16 hexadecimal digits."""
    return secrets.token_hex(8)


async def open_session(
    websocket: WebSocket,
    host: EngineHost,
    create: Callable[..., Dialect[Any]],
    describe_error: Callable[[SpeechError], Reply],
    *,
    name: str,
    session_id: str,
) -> None:
    """Create and serve the session of an accepted WebSocket, or refuse the WebSocket.

    Args:
        create: Function that creates the session from the arguments that all sessions have in common.
        describe_error: Function that creates an error message in the format of the API.
        name: Name of the API for logs and metrics.
    """
    try:
        if host.problem is not None:
            raise host.problem
        dialect = create(**session_arguments(host, websocket))
    except SpeechError as error:
        await refuse_socket(websocket, host, error, describe_error(error))
    else:
        await serve_session(websocket, host, dialect, name=name, session_id=session_id)


async def serve_session(socket: Socket, host: EngineHost, dialect: Dialect[Any], *, name: str, session_id: str) -> None:
    """Serve an accepted socket until its session ends.

    Args:
        name: Name of the API for logs and metrics.
    """
    connection = Connection(socket, dialect, host, name=name, session_id=session_id)
    host.sockets[connection] = asyncio.current_task()
    try:
        with host.metrics.count_open_session(name):
            await connection.run()
    finally:
        del host.sockets[connection]


async def refuse_socket(websocket: WebSocket, host: EngineHost, error: SpeechError, words: Reply) -> None:
    """Send an error message on an accepted WebSocket and close the WebSocket.

    Args:
        words: Error message in the format of the API.
    """
    host.metrics.count_refusal(error.code)
    await websocket.send_json(words)
    await websocket.close(error.close_code, error.code)
