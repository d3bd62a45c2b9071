"""Limits what one visitor may ask for at once and in a day; a middleware around every route.

A visitor is told by the cookie or the account; who has neither, by the address. The seconds of a day are counted by the
runtime, which is told with each request whose it is and what is allowed: it knows what it made, in whatever dialect.
Thread: the event loop.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.errors import RateLimited, SpeechError, TooManyConnections
from runtime.shared.port.allowance import Allowance
from runtime.shared.port.error_responses import error_response
from runtime.shared.port.error_shapes import told_on_socket
from studio.errors import SignInNeeded
from studio.relay import Allowed
from studio.settings import VisitSettings
from studio.visitors import Visitors

RETRY_S = 2.0
API = ("/v1/", "/tts/")
VOICES = "/v1/audio/voices"  # what is posted there is no request for speech
# Of everything else, what needs no visitor: the page itself, how it does, and signing in.
OPEN = (
    "/studio/me",
    "/studio/status",
    "/studio/presets",
    "/studio/i18n/",
    "/studio/js/",
    "/studio/css/",
    "/studio/fonts/",
    "/studio/sign",
)
CLOSED = (*API, "/voices", "/v2/voices", "/pronunciation-dicts", "/studio/", "/gradio_api/", "/mcp")


class VisitLimits:
    """ASGI middleware. Programs count as the page does, since they come through the same routes."""

    def __init__(self, app: ASGIApp, visitors: Visitors, settings: VisitSettings, *, must_sign_in: bool) -> None:
        self.app = app
        self.visitors = visitors
        self.settings = settings
        self.must_sign_in = must_sign_in
        self._sockets: Counter[str] = Counter()
        self._requests: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.visitors.each or scope["type"] not in {"http", "websocket"}:
            await self.app(scope, receive, send)
            return
        path = str(scope["path"])
        try:
            kind, who = _who(self.visitors, HTTPConnection(scope))
            if self.must_sign_in and kind != "member" and path.startswith(CLOSED) and not path.startswith(OPEN):
                raise SignInNeeded
            if not path.startswith(API):
                await self.app(scope, receive, send)
            elif scope["type"] == "websocket":
                with self._within(self._sockets, who, self.settings.visitor_sockets, TooManyConnections):
                    await self.app(scope, receive, send)
            elif scope["method"] == "POST" and not path.startswith(VOICES):
                with self._within(self._requests, who, self.settings.visitor_requests, RateLimited):
                    await self.app(scope, receive, send)
            else:
                await self.app(scope, receive, send)
        except (SignInNeeded, TooManyConnections, RateLimited) as error:
            await _say_no(scope, receive, send, error)

    @contextmanager
    def _within(self, counter: Counter[str], who: str, limit: int, error: type[SpeechError]) -> Iterator[None]:
        if counter[who] >= limit:
            raise error(limit=limit, retry_after_s=RETRY_S)
        counter[who] += 1
        try:
            yield
        finally:
            counter[who] -= 1
            if not counter[who]:
                del counter[who]


def allowances(visitors: Visitors, settings: VisitSettings) -> Allowed:
    """For whom a request is, and how many seconds of speech a day that may have made.

    Where the page has one owner, whoever comes from another address is somebody else when slots are given out.
    """

    def allowed(connection: HTTPConnection) -> Allowance:
        if not visitors.each:
            return Allowance(_address(connection))
        kind, who = _who(visitors, connection)
        seconds = settings.member_speech_s if kind == "member" else settings.visitor_speech_s
        return Allowance(who, seconds or None)

    return allowed


def _who(visitors: Visitors, connection: HTTPConnection) -> tuple[str, str]:
    visitor = visitors.of(connection)
    return visitor.kind, visitor.owner or _address(connection)


def _address(connection: HTTPConnection) -> str:
    return f"address:{connection.client.host if connection.client else ''}"


async def _say_no(scope: Scope, receive: Receive, send: Send, error: SpeechError) -> None:
    if scope["type"] == "http":
        await error_response(error)(scope, receive, send)
        return
    # Accepted first: a page cannot read the status of a refused handshake, but it can read a message.
    offered = scope["subprotocols"]
    await receive()
    await send({"type": "websocket.accept", "subprotocol": offered[0] if offered else None})
    await send({"type": "websocket.send", "text": json.dumps(told_on_socket(error, scope["path"]))})
    await send({"type": "websocket.close", "code": error.close_code, "reason": error.code})
