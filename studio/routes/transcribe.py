"""`studio/transcribe`: a recording in, its words out, where a recogniser is installed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runtime.errors import MessageTooLarge
from runtime.settings import Limits
from studio.routes.voices import guarded
from studio.transcribing.desk import Desk


def transcribe_routes(desk: Desk, limits: Limits) -> list[Route]:
    """The routes."""

    async def feature(_: Request) -> Response:
        return JSONResponse(desk.feature(), headers={"cache-control": "no-store"})

    async def transcribe(request: Request) -> Response:
        """The body is the recording; ``?language=`` names the one that is spoken in it."""
        recording = bytearray()
        async for piece in request.stream():
            recording += piece
            if len(recording) > limits.max_upload_bytes:
                size = f"over {limits.max_upload_bytes}"
                raise MessageTooLarge(what="The recording", size=size, limit=limits.max_upload_bytes)
        return JSONResponse(await desk.transcribe(bytes(recording), request.query_params.get("language", "")))

    return [
        Route("/studio/transcribe", feature, methods=["GET", "HEAD"]),
        Route("/studio/transcribe", guarded(transcribe), methods=["POST"]),
    ]
