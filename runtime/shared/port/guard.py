"""ASGI middleware that checks access to all HTTP and WebSocket routes of a port.

Requests to /health and /ready are not checked. For all other requests, the checks run in this order, inexpensive checks
first. A request that fails a check gets the status in parentheses:

1. The path has no dot segments (``..``), which later handlers might resolve differently (404).
2. The Host and X-Forwarded-Host headers contain only allowed names (403, see origins.py).
3. The numbers of connections, in total and per address (except loopback), are within the limits (503).
4. The Origin header of a WebSocket or an unsafe method is allowed (403). Requests without an Origin come from
   programs.
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

OPEN_ROUTES = frozenset({"/health", "/ready"})  # Routes that do not need an access check.


class AccessCheck(ABC):
    """Base class of ASGI middleware that accepts or refuses requests.

    The function `refused` is called with the error code of each refused request.

    Thread: event loop.
    """

    def __init__(self, app: ASGIApp, refused: Callable[[str], None] = lambda _: None) -> None:
        self._app = app
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"} or scope["path"] in OPEN_ROUTES:
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
        """Raise a SpeechError if the request is not allowed."""

    @abstractmethod
    async def _admit(self, scope: Scope, receive: Receive, send: Send, address: str) -> None:
        """Forward an allowed request to the application."""


_DOTS = frozenset({".", ".."})


class RequestGuard(AccessCheck):
    """ASGI middleware that checks path, host, connection limits and origin of each request.

    Thread: event loop.
    """

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
        """Check path, Host header, connection limits and Origin header of a request.

        Raises:
            UnknownRoute, HostRefused, TooManyConnections, OriginRefused: A check failed, in this order.
        """
        # Paths with a line break are refused, because no route matches them, even if its last part accepts any path.
        if "\n" in scope["path"] or not _DOTS.isdisjoint(scope["path"].replace("\\", "/").split("/")):
            raise UnknownRoute(hint="")
        headers = Headers(scope=scope)
        # X-Forwarded-Host is also checked, because Gradio uses it as the URL of the page, and many proxies forward the
        # value of the client.
        forwarded = [name.strip() for line in headers.getlist("x-forwarded-host") for name in line.split(",")]
        if not all(map(self._hosts.allow, [*headers.getlist("host"), *forwarded])):
            raise HostRefused
        self.caps.check(address)
        others = self._origins if self._origins is not None and self._origins.apply_to(scope["path"]) else None
        is_change = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        if is_change and not may_use(headers, others):
            raise OriginRefused
