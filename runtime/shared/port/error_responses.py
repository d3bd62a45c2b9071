"""Makes the HTTP response of an error for every route and middleware.

Its body is as the clients of its path read it (error_shapes.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from math import ceil

from fastapi.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from runtime.errors import Busy, Expired, SpeechError
from runtime.shared.port.error_shapes import shaped

_RETRY_AFTER_S = 2.0  # where the error does not know better


class _ErrorResponse(JSONResponse):
    """An error in the shape of the path that was asked for."""

    def __init__(self, error: SpeechError, headers: Mapping[str, str], beside: Mapping[str, object]) -> None:
        self._error = error
        self._beside = beside
        super().__init__(self._shaped("", ""), status_code=error.http_status, headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.shape(scope["path"], str(scope.get("state", {}).get("request_id", "")))
        await super().__call__(scope, receive, send)

    def shape(self, path: str, request_id: str) -> None:
        """Write the body in the shape of this path."""
        self.body = self.render(self._shaped(path, request_id))
        self.headers["content-length"] = str(len(self.body))

    def _shaped(self, path: str, request_id: str) -> dict[str, object]:
        return {**self._beside, **shaped(self._error, path, request_id)}


def raw_error_response(error: SpeechError, path: str) -> bytes:
    """Return the response as bytes, for a connection without a request that an application could answer."""
    response = error_response(error, {"Connection": "close"})
    response.shape(path, "")
    status = HTTPStatus(error.http_status)
    lines = [f"HTTP/1.1 {status} {status.phrase}".encode()]
    lines += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*lines, b"", response.body])


def error_response(error: SpeechError, headers: dict[str, str] | None = None, **beside: object) -> _ErrorResponse:
    """Return the response; a client that may try again is told when. ``beside`` are further fields of the body."""
    headers = {"Cache-Control": "no-store", **(headers or {})}
    if isinstance(error, Busy):
        wait_s = error.facts.get("retry_after_s", _RETRY_AFTER_S)
        headers["Retry-After"] = str(max(1, ceil(wait_s if isinstance(wait_s, int | float) else _RETRY_AFTER_S)))
    if error.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, Expired):
        headers["Connection"] = "close"  # what it waited for may still come, and is no next request
    return _ErrorResponse(error, headers, beside)
