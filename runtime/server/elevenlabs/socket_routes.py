"""Registration of ElevenLabs' WebSocket routes."""

from __future__ import annotations

from fastapi import FastAPI, WebSocket

from runtime.errors import SpeechError
from runtime.server.elevenlabs import messages
from runtime.server.elevenlabs.multi_stream_input import MultiStreamInputSession
from runtime.server.elevenlabs.schema import read_socket_options
from runtime.server.elevenlabs.session import ElevenLabsSession
from runtime.server.elevenlabs.speech_routes import PATH
from runtime.server.elevenlabs.stream_input import StreamInputSession
from runtime.server.engine_host import EngineHost
from runtime.server.websocket_routes import new_id, refuse_socket, serve_session, session_arguments


def add_routes(app: FastAPI, host: EngineHost) -> None:
    """Register ElevenLabs' WebSocket routes."""

    async def serve(kind: type[ElevenLabsSession], websocket: WebSocket, voice_id: str) -> None:
        await websocket.accept()
        try:
            if host.problem is not None:
                raise host.problem
            options = read_socket_options(websocket.query_params)
            dialect = kind(voice_id=voice_id, options=options, **session_arguments(host, websocket))
        except SpeechError as error:
            await refuse_socket(websocket, host, error, messages.error(error))
        else:
            await serve_session(websocket, host, dialect, name="elevenlabs", session_id=new_id())

    @app.websocket(PATH + "/stream-input")
    async def stream_input(websocket: WebSocket, voice_id: str) -> None:
        """Speak one streamed text."""
        await serve(StreamInputSession, websocket, voice_id)

    @app.websocket(PATH + "/multi-stream-input")
    async def multi_stream_input(websocket: WebSocket, voice_id: str) -> None:
        """Speak several streamed texts at the same time."""
        await serve(MultiStreamInputSession, websocket, voice_id)
