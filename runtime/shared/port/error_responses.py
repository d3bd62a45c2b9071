"""Makes the HTTP response of an error for every route and middleware.

Its body is as OpenAI's clients read it, but for the routes whose dialect has another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from runtime.errors import Busy, Expired, SpeechError

_RETRY_AFTER_S = 2.0  # where the error does not know better

ErrorBody = Callable[[SpeechError, str], Mapping[str, object]]  # of an error and the id of its request


def tell_errors(app: FastAPI, prefixes: tuple[str, ...], body: ErrorBody) -> None:
    """Have errors told so on the paths that begin with these, whether there is such a route or not."""
    app.state.error_bodies = {**_error_bodies(app), prefixes: body}


class _ErrorResponse(JSONResponse):
    """An error in the shape of the path that was asked for."""

    def __init__(self, error: SpeechError, headers: Mapping[str, str], beside: Mapping[str, object]) -> None:
        super().__init__({**beside, "error": error_body(error)}, status_code=error.http_status, headers=headers)
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        for prefixes, body in _error_bodies(scope.get("app")).items():
            if scope["path"].startswith(prefixes):
                request_id = str(scope.get("state", {}).get("request_id", ""))
                self.body = self.render(body(self._error, request_id))
                self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def _error_bodies(app: object) -> dict[tuple[str, ...], ErrorBody]:
    return getattr(app.state, "error_bodies", {}) if isinstance(app, FastAPI) else {}


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
    return _ErrorResponse(error, headers, beside)
