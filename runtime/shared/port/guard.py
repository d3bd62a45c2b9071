"""Checks what holds for every route of a port, HTTP and WebSocket alike, in one middleware.

It looks at, in this order, so that cheap checks come before dear ones:

1. /health and /ready are open to every client.
2. The path: a path with dots means another one once they are resolved, which the next reader may not do, so there is no
   such route.
3. The name that the port was called by: 403 (origins.py).
4. Connections, in all and of one address (loopback excepted): 503.
5. Origin, of WebSockets and of methods that change something: 403. A request without one comes from a program.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.errors import HostRefused, OriginRefused, SpeechError, UnknownRoute
from runtime.settings import ServerSettings
from runtime.shared.port.errors import error_response
from runtime.shared.port.limits import ConnectionCaps
from runtime.shared.port.origins import SAFE_METHODS, Hosts, Origins, may_use, network_of

OPEN = frozenset({"/health", "/ready"})  # Routes without access control.


class AccessCheck(ABC):
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


_DOTS = frozenset({".", ".."})


class RequestGuard(AccessCheck):
    """ASGI middleware. Thread: event loop."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        hosts: Hosts,
        origins: Origins | None = None,
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(app, refused)
        self._hosts = hosts
        self._origins = origins
        self.caps = ConnectionCaps(settings)

    async def _admit(self, scope: Scope, receive: Receive, send: Send, address: str) -> None:
        with self.caps.holding(address):
            await self._app(scope, receive, send)

    def _check(self, scope: Scope, address: str) -> None:
        """Raise why this request may not come in.

        Raises:
            UnknownRoute, HostRefused, TooManyConnections, OriginRefused: in that order.
        """
        if not _DOTS.isdisjoint(scope["path"].replace("\\", "/").split("/")):
            raise UnknownRoute
        headers = Headers(scope=scope)
        if not all(map(self._hosts.know, headers.getlist("host"))):
            raise HostRefused
        self.caps.check(address)
        others = self._origins if self._origins is not None and self._origins.hold_for(scope["path"]) else None
        is_change = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        if is_change and not may_use(headers, others):
            raise OriginRefused
