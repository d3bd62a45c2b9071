"""HTTP responses and messages of errors, in the shape that clients of each path read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from math import ceil

from fastapi.responses import JSONResponse
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, WebSocketRoute
from starlette.types import Receive, Scope, Send

from runtime.errors import Busy, Expired, MethodNotAllowed, SpeechError, UnknownRoute, WebSocketOnly

# What the paths of a dialect begin with, whether there is such a route or not.
CARTESIA = ("/tts/", "/voices", "/pronunciation-dicts")
ELEVENLABS = (
    *("/v1/text-to-speech/", "/v1/text-to-dialogue", "/v1/user", "/v1/voices", "/v2/voices"),
    "/v1/pronunciation-dictionaries",
)

DIALECT_PATHS = (*CARTESIA, *ELEVENLABS)  # whose errors have another shape than OpenAI's

_ELEVENLABS_FIELDS = {"language": "language_code"}  # what the engine names by our word


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


def shaped(error: SpeechError, path: str, request_id: str) -> dict[str, object]:
    """The body of a refusal on that path; ``request_id`` is empty where the port gives its requests none."""
    if path.startswith(CARTESIA):
        return {**cartesia_fields(error, request_id), "param": error.param}
    if path.startswith(ELEVENLABS):
        detail = {
            "status": error.code,
            "message": str(error),
            "request_id": request_id,
            "param": elevenlabs_field(error),
            "retryable": error.retryable,
        }
        return {"detail": detail}
    return {"error": error_body(error)}


def told_on_socket(error: SpeechError, path: str) -> dict[str, object]:
    """Return the error message for an accepted WebSocket of that path, sent before it is closed."""
    if path.startswith(CARTESIA):
        return cartesia_message(error, None, "")
    if path.startswith(ELEVENLABS):
        return elevenlabs_message(error, error.close_code)
    return {**error_body(error), "type": "error", "context_id": None}


def cartesia_message(error: SpeechError, context: str | None, request_id: str) -> dict[str, object]:
    """Of a socket; with a context it is the last message of that."""
    return {
        "type": "error",
        "context_id": context,
        **cartesia_fields(error, request_id),
        "status_code": error.http_status,
        "done": context is not None,
    }


def elevenlabs_message(error: SpeechError, close_code: int) -> dict[str, object]:
    """Of a socket; the code is that of the close that follows, where one does."""
    return {
        "message": str(error),
        "error": error.code,
        "code": close_code,
        "param": elevenlabs_field(error),
        "retryable": error.retryable,
    }


def cartesia_fields(error: SpeechError, request_id: str) -> dict[str, object]:
    """Return the fields of an error in Cartesia's format, for HTTP and WebSocket."""
    return {
        "title": error.code.replace("_", " ").capitalize(),
        "message": str(error),
        "error_code": error.code,
        "request_id": request_id,
        "retryable": error.retryable,
    }


def elevenlabs_field(error: SpeechError) -> str | None:
    """Which of ElevenLabs' fields a fault is in."""
    return _ELEVENLABS_FIELDS.get(error.param, error.param) if error.param else None


_RETRY_AFTER_S = 2.0  # Used if the error has no value of its own.


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


_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def unrouted(routes: Iterable[BaseRoute], scope: Scope) -> Response:
    """The refusal of an HTTP request that none of the routes takes; ``Allow`` names what all of them together do."""
    routes = list(routes)
    socket = {**scope, "type": "websocket"}
    if any(isinstance(route, WebSocketRoute) and route.matches(socket)[0] is Match.FULL for route in routes):
        return error_response(WebSocketOnly(), {"Upgrade": "websocket", "Connection": "Upgrade"})
    asked = {**scope, "type": "http"}
    allowed = [
        method
        for method in _METHODS
        if any(route.matches({**asked, "method": method})[0] is Match.FULL for route in routes)
    ]
    if not allowed:
        return error_response(UnknownRoute())
    words = ", ".join(allowed)
    return error_response(MethodNotAllowed(allowed=words), {"Allow": words})


async def no_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a WebSocket for which there is no route: 404 and the sentence, before it is accepted."""
    await error_response(UnknownRoute())(scope, receive, send)
