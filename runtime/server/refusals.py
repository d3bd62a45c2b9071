"""How HTTP says no: the error as OpenAI's clients read it."""

from __future__ import annotations

import math
from typing import Any

from fastapi.responses import JSONResponse

from runtime.errors import Expired, SpeechError


def error_object(error: SpeechError) -> dict[str, Any]:
    """Return what stands under ``error``, in a reply and in an event."""
    return {
        "message": str(error),
        "type": "server_error" if error.outcome.http >= 500 else "invalid_request_error",
        "param": error.param,
        "code": error.code,
        "retryable": error.outcome.retryable,
    }


def refusal(error: SpeechError, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error as a reply, with Retry-After where the error knows when."""
    headers = dict(headers or {})
    retry_after = error.facts.get("retry_after_s")
    if isinstance(retry_after, int | float):
        headers["Retry-After"] = str(math.ceil(retry_after))
    if isinstance(error, Expired):
        headers["Connection"] = "close"  # what it waited for may still come, and is no next request
    return JSONResponse({"error": error_object(error)}, status_code=error.outcome.http, headers=headers)
