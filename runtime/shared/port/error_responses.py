"""Makes the HTTP response of an error, as OpenAI's clients read it, for every route and middleware."""

from __future__ import annotations

from math import ceil

from fastapi.responses import JSONResponse

from runtime.errors import Busy, Expired, SpeechError

_RETRY_AFTER_S = 2.0  # where the error does not know better


def error_body(error: SpeechError) -> dict[str, object]:
    """The ``error`` object of a refusal."""
    return {
        "message": str(error),
        "type": "server_error" if error.http_status >= 500 else "invalid_request_error",
        "param": error.param,
        "code": error.code,
        "retryable": error.retryable,
        "facts": error.told,
    }


def error_response(error: SpeechError, headers: dict[str, str] | None = None, **beside: object) -> JSONResponse:
    """Return the response; a client that may try again is told when. ``beside`` are further fields of the body."""
    headers = {"Cache-Control": "no-store", **(headers or {})}
    if isinstance(error, Busy):
        wait_s = error.facts.get("retry_after_s", _RETRY_AFTER_S)
        headers["Retry-After"] = str(max(1, ceil(wait_s if isinstance(wait_s, int | float) else _RETRY_AFTER_S)))
    if error.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, Expired):
        headers["Connection"] = "close"  # what it waited for may still come, and is no next request
    return JSONResponse({**beside, "error": error_body(error)}, status_code=error.http_status, headers=headers)
