"""Registration of ElevenLabs' WebSocket routes."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, WebSocket

from runtime.server.elevenlabs import messages
from runtime.server.elevenlabs.multi_stream_input import MultiStreamInputSession
from runtime.server.elevenlabs.schema import SocketOptions, read_options
from runtime.server.elevenlabs.session import ElevenLabsSession
from runtime.server.elevenlabs.speech_routes import PATH
from runtime.server.elevenlabs.stream_input import StreamInputSession
from runtime.server.engine_host import EngineHost
from runtime.server.websocket_routes import new_id, open_session


def add_routes(app: FastAPI, host: EngineHost) -> None:
    """Register ElevenLabs' WebSocket routes."""

    async def serve(kind: type[ElevenLabsSession], websocket: WebSocket, voice_id: str) -> None:
        def create(**common_arguments: Any) -> ElevenLabsSession:
            options = read_options(SocketOptions, websocket.query_params)
            return kind(voice_id=voice_id, options=options, **common_arguments)

        await websocket.accept()
        await open_session(websocket, host, create, messages.error, name="elevenlabs", session_id=new_id())

    @app.websocket(PATH + "/stream-input")
    async def stream_input(websocket: WebSocket, voice_id: str) -> None:
        """Speak one streamed text."""
        await serve(StreamInputSession, websocket, voice_id)

    @app.websocket(PATH + "/multi-stream-input")
    async def multi_stream_input(websocket: WebSocket, voice_id: str) -> None:
        """Speak several streamed texts at the same time."""
        await serve(MultiStreamInputSession, websocket, voice_id)
