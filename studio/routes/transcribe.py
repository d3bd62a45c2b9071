"""Routes `studio/transcribe`: transcript of a recording.

For the host, there is also the download of the recogniser's model.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runtime.settings import Limits
from runtime.shared.port.limits import whole_body
from studio.errors import HostOnly
from studio.routes.responses import BODY_TIMEOUT_S, handle_errors, json_response
from studio.transcribing.service import TranscriptionService


def transcribe_routes(
    service: TranscriptionService, limits: Limits, is_host: Callable[[Request], bool] = lambda _: False
) -> list[Route]:
    """Return the routes.

    Args:
        service: Transcription service.
        limits: Limits of uploads.
        is_host: Function that permits the download.
    """

    async def transcribe(request: Request) -> Response:
        """Transcribe the recording in the body.

        `?language=` is its language.
        """
        most = limits.max_upload_bytes
        recording = await whole_body(request, max_bytes=most, idle_s=BODY_TIMEOUT_S, what="The recording")
        return json_response(await service.transcribe(recording, request.query_params.get("language", "")))

    async def model(request: Request) -> Response:
        """Return the state of the model.

        POST starts its download and DELETE stops it.
        """
        if not is_host(request):
            raise HostOnly
        if request.method == "POST":
            service.model.start()
        elif request.method == "DELETE":
            await service.model.stop()
        return json_response(service.feature(is_host=True))

    return [
        Route("/studio/transcribe", handle_errors(transcribe), methods=["POST"]),
        Route("/studio/transcribe/model", handle_errors(model), methods=["GET", "POST", "DELETE"]),
    ]
