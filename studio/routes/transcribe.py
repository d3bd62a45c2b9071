"""Routes `studio/transcribe`: transcription of recordings, and download of the model."""

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
    """Return the HTTP routes that transcribe recordings and download the recogniser's model.

    Args:
        service: Service that transcribes recordings.
        limits: Limits that include the maximum upload size.
        is_host: Function that returns True if the request comes from the operator of the studio.
    """

    async def transcribe(request: Request) -> Response:
        """Transcribe the recording in the request body.

        `?language=` is the language of the recording.
        """
        most = limits.max_upload_bytes
        recording = await whole_body(request, max_bytes=most, idle_s=BODY_TIMEOUT_S, what="The recording")
        return json_response(await service.transcribe(recording, request.query_params.get("language", "")))

    async def model(request: Request) -> Response:
        """Return the state of the recognition model.

        POST starts the download of the model, and DELETE stops it.
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
