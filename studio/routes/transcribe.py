"""Route `studio/transcribe`: a recording's transcript, if a recogniser is installed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runtime.errors import MessageTooLarge, MoreThan
from runtime.settings import Limits
from studio.routes.answers import answering, said
from studio.transcribing.desk import Desk


def transcribe_routes(desk: Desk, limits: Limits) -> list[Route]:
    """Return the routes."""

    async def transcribe(request: Request) -> Response:
        """The body is the recording; ``?language=`` names the one that is spoken in it."""
        recording = bytearray()
        async for piece in request.stream():
            recording += piece
            if len(recording) > limits.max_upload_bytes:
                most = limits.max_upload_bytes
                raise MessageTooLarge(what="The recording", size=MoreThan(most), limit=most)
        return said(await desk.transcribe(bytes(recording), request.query_params.get("language", "")))

    return [Route("/studio/transcribe", answering(transcribe), methods=["POST"])]
