"""Filter that rejects unnecessary routes of Gradio and MCP, and invalid requests to them.

The page and the actions need only some of the routes. Request bodies are validated here because Gradio and MCP respond
to invalid bodies with a traceback.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.errors import GenerationFailed, InvalidConfig, MethodNotAllowed, SpeechError, UnknownRoute
from runtime.shared.port.errors import error_response, unknown_route
from studio.routes.responses import read_body
from studio.store.records import decode

log = logging.getLogger(__name__)

API = "/gradio_api"
JOIN, CALL = f"{API}/queue/join", f"{API}/call/"
# Pages whose query is removed, because Gradio would use it to load a saved state, which the studio does not support.
PAGES = frozenset({"/", "/config"})
OPEN = PAGES | {
    "/favicon.ico",
    "/manifest.json",
    "/mcp",
    "/pwa_icon",
    "/robots.txt",
    "/theme.css",
    JOIN,
    *(
        f"{API}/{name}"
        for name in ("app_id", "cancel", "info", "login_check", "openapi.json", "queue/data", "queue/status", "reset")
    ),
    *(f"{API}/{name}" for name in ("startup-events", "theme.css")),
}
FILE_PREFIX = f"{API}/file="  # Prefix of file paths in the results of actions.
FOLDERS = ("/assets/", "/static/", "/svelte/", CALL, f"{API}/heartbeat/")
_CLOSED_PATHS = (f"{CALL}v2/",)


class Function(NamedTuple):
    """Gradio function that clients may call, with its number of arguments and default values."""

    name: str
    values: int
    defaults: tuple[Any, ...] = ()

    def complete_arguments(self, data: Any) -> list[Any]:
        """Return the arguments of a call to this function, with defaults for missing arguments.

        The defaults are added here because Gradio fails if an argument is missing.

        Raises:
            InvalidConfig: `data` is not a list, or has too many or too few values.
        """
        least = self.values - len(self.defaults)
        if not isinstance(data, list) or not least <= len(data) <= self.values:
            numbers = f"{least} to {self.values}" if self.defaults else f"{self.values}"
            raise InvalidConfig(where="data", why=f"{self.name} takes a list of {numbers} values")
        return [*data, *self.defaults[len(data) - least :]]


class RouteFilter:
    """ASGI middleware that rejects requests to unnecessary routes of Gradio and MCP.

    `functions` has the allowed Gradio functions, by their index in Gradio. `files` is the folder with result files that
    clients may download.
    """

    def __init__(self, app: ASGIApp, functions: Mapping[int, Function], files: str, max_bytes: int) -> None:
        self._app = app
        self._functions = functions
        self._called = {CALL + function.name: function for function in functions.values()}
        self._files = re.compile(rf"{FILE_PREFIX}{re.escape(files)}/[0-9a-f]{{64}}/voicewright\.\w+")
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"].rstrip("/") or "/"
        try:
            if not (self._is_open(path) or self._files.fullmatch(path)):
                raise unknown_route(path)
            scope = {**scope, "path": path}
            if path in PAGES:
                scope["query_string"] = b""
            if scope["method"] == "POST":
                receive = await self._checked(path, scope, receive)
        except SpeechError as error:
            await error_response(error)(scope, receive, send)
        except ClientDisconnect:
            return
        else:
            await self._pass(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        if path.startswith(_CLOSED_PATHS):
            return False
        if path.startswith(CALL):
            return CALL + path.removeprefix(CALL).partition("/")[0] in self._called
        return path in OPEN or path.startswith(FOLDERS)

    async def _checked(self, path: str, scope: Scope, receive: Receive) -> Receive:
        """Read and validate the request body, and return a `receive` function that replays it.

        Raises:
            InvalidMessage, InvalidConfig, MessageTooLarge, SessionIdle: The body is invalid.
        """
        body = await read_body(Request(scope, receive), self._max_bytes)
        fields = decode(body) if body else {}
        function = self._called.get(path)
        if path == JOIN:
            function = self._functions.get(fields["fn_index"]) if type(fields.get("fn_index")) is int else None
            if function is None:
                raise InvalidConfig(where="fn_index", why=f"there are the functions 0 to {max(self._functions)}")
        if function is not None:
            body = json.dumps({**fields, "data": function.complete_arguments(fields.get("data"))}).encode()
        is_given = False

        async def again() -> Message:
            nonlocal is_given
            if is_given:
                return await receive()
            is_given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return again

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to Gradio, and replace its error responses that have no message."""
        started = False
        failure: SpeechError | None = None

        async def unless_failed(message: Message) -> None:
            nonlocal started, failure
            if message["type"] == "http.response.start":
                failure = _failure(message["status"], Headers(raw=message["headers"]))
                started = failure is None
            if failure is None:
                await send(message)

        try:
            await self._app(scope, receive, unless_failed)
        except ClientDisconnect:
            return
        except Exception as error:
            if started:  # If the response has started, Gradio reports the error in the stream.
                log.warning("Gradio aborted a response: %s", type(error).__name__)
                return
            log.exception("Gradio failed to handle a request")
            failure = GenerationFailed()
        if failure is not None and not started:
            await error_response(failure)(scope, receive, send)


def _failure(status: int, headers: Headers) -> SpeechError | None:
    """Return the studio's error for one of Gradio's status codes without a message, or None."""
    match status:
        case 404:
            return UnknownRoute(hint="")
        case 405:
            return MethodNotAllowed(allowed=headers.get("allow", "GET"))
        case 500:
            return GenerationFailed()
    return None
