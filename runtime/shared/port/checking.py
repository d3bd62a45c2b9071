"""Defines a check in front of a port: middleware that lets a request in or answers it with the reason why not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.errors import SpeechError
from runtime.shared.port.error_responses import error_response
from runtime.shared.port.proxies import network_of

OPEN = frozenset({"/health", "/ready"})  # Routes without access control.


class Checking(ABC):
    """ASGI middleware. ``refused`` hears the code of each refusal. Thread: event loop."""

    def __init__(self, app: ASGIApp, refused: Callable[[str], None] = lambda _: None) -> None:
        self._app = app
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"} or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        address = network_of(scope["client"][0] if scope.get("client") else "")
        try:
            self._check(scope, address)
        except SpeechError as error:
            self._refused(error.code)
            await error_response(error)(scope, receive, send)
        else:
            await self._admit(scope, receive, send, address)

    @abstractmethod
    def _check(self, scope: Scope, address: str) -> None:
        """Raise the SpeechError that says why this request may not come in."""

    @abstractmethod
    async def _admit(self, scope: Scope, receive: Receive, send: Send, address: str) -> None:
        """Serve a request that may."""
