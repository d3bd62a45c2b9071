"""Error responses of HTTP and WebSocket, in the format of the requested path's API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from math import ceil

from fastapi.responses import JSONResponse
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, WebSocketRoute
from starlette.types import Receive, Scope, Send

from runtime.errors import Busy, Expired, MethodNotAllowed, SpeechError, UnknownRoute, WebSocketOnly

# Path prefixes of each API. They also match paths without a route.
CARTESIA = ("/tts/", "/voices", "/pronunciation-dicts")
ELEVENLABS = (
    *("/v1/text-to-speech/", "/v1/text-to-dialogue", "/v1/user", "/v1/voices", "/v2/voices"),
    "/v1/pronunciation-dictionaries",
)

# Routes that clients with a wrong base URL request without /v1 or with a double /v1. The longest routes are first.
_V1_ROUTES = (
    *("/v1/audio/speech/batch", "/v1/audio/speech/stream", "/v1/audio/speech", "/v1/audio/voices", "/v1/audio/models"),
    *("/v1/audio/pronunciations", "/v1/models", "/v1/text-to-speech", "/v1/text-to-dialogue"),
)

DIALECT_PATHS = (*CARTESIA, *ELEVENLABS)  # Prefixes of paths whose error format differs from OpenAI's format.

_ELEVENLABS_FIELD_NAMES = {"language": "language_code"}


def error_body(error: SpeechError) -> dict[str, object]:
    """Return the object ``error`` of an error response in OpenAI's format."""
    return {
        "message": str(error),
        "type": "server_error" if error.http_status >= 500 else "invalid_request_error",
        "param": error.param,
        "code": error.code,
        "retryable": error.retryable,
        "facts": error.public_facts,
    }


def format_error(error: SpeechError, path: str, request_id: str) -> dict[str, object]:
    """Return the response body for an error in the format of the path's API.

    Args:
        error: Error to report.
        path: URL path of the request, which determines the API.
        request_id: Request id, or "" if the port has no request ids.
    """
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


def socket_error(error: SpeechError, path: str) -> dict[str, object]:
    """Return the error message that is sent on an accepted WebSocket before it is closed.

    The path of the WebSocket determines the format of the message.
    """
    if path.startswith(CARTESIA):
        return cartesia_message(error, None, "")
    if path.startswith(ELEVENLABS):
        return elevenlabs_message(error, error.close_code)
    return {**error_body(error), "type": "error", "context_id": None}


def cartesia_message(error: SpeechError, context: str | None, request_id: str) -> dict[str, object]:
    """Return the WebSocket message for an error in Cartesia's format.

    A message with a context id also ends this context.
    """
    return {
        "type": "error",
        "context_id": context,
        **cartesia_fields(error, request_id),
        "status_code": error.http_status,
        "done": context is not None,
    }


def elevenlabs_message(error: SpeechError, close_code: int) -> dict[str, object]:
    """Return the WebSocket message for an error in ElevenLabs' format.

    Args:
        error: Error to report.
        close_code: WebSocket close code, which is part of the message.
    """
    return {
        "message": str(error),
        "error": error.code,
        "code": close_code,
        "param": elevenlabs_field(error),
        "retryable": error.retryable,
    }


def cartesia_fields(error: SpeechError, request_id: str) -> dict[str, object]:
    """Return the error fields of Cartesia's API, for HTTP and WebSocket."""
    return {
        "title": error.code.replace("_", " ").capitalize(),
        "message": str(error),
        "error_code": error.code,
        "request_id": request_id,
        "retryable": error.retryable,
    }


def elevenlabs_field(error: SpeechError) -> str | None:
    """Return the invalid field's name in ElevenLabs' API, or None if the error has no field."""
    return _ELEVENLABS_FIELD_NAMES.get(error.param, error.param) if error.param else None


_RETRY_AFTER_S = 2.0  # Value in seconds of the header Retry-After for errors that have no such value.


class _ErrorResponse(JSONResponse):
    """Error response in the format of the requested path's API."""

    def __init__(self, error: SpeechError, headers: Mapping[str, str], extra: Mapping[str, object]) -> None:
        self._error = error
        self._extra = extra
        super().__init__(self._format_error("", ""), status_code=error.http_status, headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.render_for_path(scope["path"], str(scope.get("state", {}).get("request_id", "")))
        await super().__call__(scope, receive, send)

    def render_for_path(self, path: str, request_id: str) -> None:
        """Set the body to the error in the format of a path's API."""
        self.body = self.render(self._format_error(path, request_id))
        self.headers["content-length"] = str(len(self.body))

    def _format_error(self, path: str, request_id: str) -> dict[str, object]:
        return {**self._extra, **format_error(self._error, path, request_id)}


def raw_error_response(error: SpeechError, path: str) -> bytes:
    """Return the complete HTTP error response as bytes.

    It is used on connections whose request was refused before it reached the application.
    """
    response = error_response(error, {"Connection": "close"})
    response.render_for_path(path, "")
    status = HTTPStatus(error.http_status)
    lines = [f"HTTP/1.1 {status} {status.phrase}".encode()]
    lines += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*lines, b"", response.body])


def error_response(error: SpeechError, headers: dict[str, str] | None = None, **extra: object) -> _ErrorResponse:
    """Return the HTTP response for an error, with Retry-After if the error is temporary.

    Args:
        extra: Further fields of the response body.
    """
    headers = {"Cache-Control": "no-store", **(headers or {})}
    if isinstance(error, Busy):
        wait_s = error.facts.get("retry_after_s", _RETRY_AFTER_S)
        headers["Retry-After"] = str(max(1, ceil(wait_s if isinstance(wait_s, int | float) else _RETRY_AFTER_S)))
    if error.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, Expired):
        # If the connection stayed open, the remaining data of this request would be parsed as the next request.
        headers["Connection"] = "close"
    return _ErrorResponse(error, headers, extra)


_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def unmatched_route_error(routes: Iterable[BaseRoute], scope: Scope) -> Response:
    """Return the error response for a request without a matching route.

    If the path exists, the header ``Allow`` lists its methods.
    """
    routes = list(routes)
    if _has_socket(routes, scope):
        return error_response(WebSocketOnly(), {"Upgrade": "websocket", "Connection": "Upgrade"})
    allowed = _methods(routes, scope)
    if not allowed:
        bare = {**scope, "path": scope["path"].rstrip("/")}
        has_trailing_slash = bare["path"] != scope["path"] and (_has_socket(routes, bare) or _methods(routes, bare))
        return error_response(trailing_slash_error() if has_trailing_slash else unknown_route(scope["path"]))
    names = ", ".join(allowed)
    return error_response(MethodNotAllowed(allowed=names), {"Allow": names})


def trailing_slash_error() -> UnknownRoute:
    """Return the error for a path that would be valid without its trailing slash."""
    return UnknownRoute(hint=" It exists without the slash at its end.")


def unknown_route(path: str) -> UnknownRoute:
    """Return the error for an unknown path.

    If the path would be valid with or without another /v1, the error suggests the correct path.
    """
    rest = path
    while rest.startswith("/v1/"):
        rest = rest.removeprefix("/v1")
    meant = next((route for route in _V1_ROUTES if f"/v1{rest}/".startswith(f"{route}/")), None)
    if meant is None or path.startswith(f"{meant}/"):
        return UnknownRoute(hint="")
    return UnknownRoute(hint=f" The path is {meant}, with /v1 once; check the base address of your client.")


def _has_socket(routes: list[BaseRoute], scope: Scope) -> bool:
    socket = {**scope, "type": "websocket"}
    return any(isinstance(route, WebSocketRoute) and route.matches(socket)[0] is Match.FULL for route in routes)


def _methods(routes: list[BaseRoute], scope: Scope) -> list[str]:
    """Return the HTTP methods of all routes that match the path."""
    http_scope = {**scope, "type": "http"}
    return [
        method
        for method in _METHODS
        if any(route.matches({**http_scope, "method": method})[0] is Match.FULL for route in routes)
    ]


async def refuse_unknown_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond with status 404 to a WebSocket handshake whose path has no matching route."""
    await error_response(unknown_route(scope["path"]))(scope, receive, send)
