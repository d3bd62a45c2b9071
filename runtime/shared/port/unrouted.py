"""Answers, in words and on a WebSocket too, where a port has no such route, or none for the method."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response
from starlette.routing import BaseRoute, Match, WebSocketRoute
from starlette.types import Receive, Scope, Send

from runtime.errors import MethodNotAllowed, UnknownRoute, WebSocketOnly
from runtime.shared.port.error_responses import error_response

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
