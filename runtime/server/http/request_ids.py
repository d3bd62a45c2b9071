"""Request ids for responses and logs.

The client's X-Request-Id header is used if it is valid. Otherwise the server generates an id.
"""

from __future__ import annotations

import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "X-Request-Id"
# Pattern of a valid request id. It excludes the characters that end a log line or a header.
_SAFE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


class RequestIds:
    """ASGI middleware that assigns an id to every HTTP request and response.

    It must be the outermost middleware, so that error responses of other middleware also have an id.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        header = Headers(scope=scope).get(HEADER, "")
        request_id = header if _SAFE.fullmatch(header) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        await self._app(scope, receive, named)


def request_id_of(request: Request) -> str:
    """Return the request id that the middleware `RequestIds` assigned."""
    return str(request.state.request_id)
