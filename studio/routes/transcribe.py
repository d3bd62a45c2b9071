"""Route `studio/transcribe`: transcript of a recording, if a recogniser is installed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runtime.settings import Limits
from runtime.shared.port.limits import whole_body
from studio.routes.responses import IDLE_S, handle_errors, json_response
from studio.transcribing.service import TranscriptionService


def transcribe_routes(service: TranscriptionService, limits: Limits) -> list[Route]:
    """Return the routes."""

    async def transcribe(request: Request) -> Response:
        """Transcribe the recording in the body; `?language=` is its language."""
        most = limits.max_upload_bytes
        recording = await whole_body(request, max_bytes=most, idle_s=IDLE_S, what="The recording")
        return json_response(await service.transcribe(recording, request.query_params.get("language", "")))

    return [Route("/studio/transcribe", handle_errors(transcribe), methods=["POST"])]
