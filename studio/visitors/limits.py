"""ASGI middleware that limits concurrent requests and daily use per visitor.

A visitor is identified by sign-in or cookie, or else by network address. A client can get a new cookie at any time.
Therefore, only the first few visitors per address and day have their own limits, and all others share one account. The
studio sends the account and its daily limit with each request, and the runtime counts the seconds of speech.
Thread: event loop.
"""

from __future__ import annotations

import json
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.errors import RateLimited, SpeechError, StorageFailed, TooManyConnections
from runtime.shared.port.errors import error_response, socket_error
from runtime.shared.port.limits import Allowance
from runtime.shared.port.origins import SAFE_METHODS
from studio.errors import SignInNeeded, StoreBusy, StoreFull
from studio.relay.relay import Allowed
from studio.settings import VisitSettings
from studio.visitors.visitors import Visitor, Visitors, address_of
from studio.visitors.voice_owners import CHECK_PATH, RUNTIME_DATA_PATHS, stores_in_runtime

RETRY_S = 2.0
API = ("/v1/", "/tts/")
# Path to which voices are uploaded. A POST request to this path does not request speech.
VOICES_PATH = "/v1/audio/voices"
# Paths that are open without sign-in: parts of the page, status and the sign-in itself.
_OPEN_PATHS = (
    "/studio/me",
    "/studio/status",
    "/studio/bundle/",
    "/studio/js/",
    "/studio/css/",
    "/studio/fonts/",
    "/studio/sign",
)
_ADDRESS_PREFIX = "address:"
# Path prefixes of stored data.
_STORING_PATHS = ("/studio/takes", "/studio/scripts", "/studio/pronunciation", "/studio/me", *RUNTIME_DATA_PATHS)
_NOT_STORING_PATHS = frozenset({CHECK_PATH, "/studio/pronunciation/said", "/studio/takes/free", "/studio/takes/delete"})
_MAX_ADDRESSES = 65_536
RESTRICTED_PATHS = (*API, "/voices", "/v2/voices", "/pronunciation-dicts", "/studio/", "/gradio_api/", "/mcp")


class Accounts:
    """Assignment of requests to accounts, whose use is limited."""

    def __init__(
        self, visitors: Visitors, max_visitors_per_address: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.visitors = visitors
        self._max_visitors = max_visitors_per_address
        self._clock = clock
        self._day = 0
        self._known: OrderedDict[str, set[str]] = OrderedDict()  # Visitors of the current day by network address.

    def account_of(self, connection: HTTPConnection) -> tuple[str, str]:
        """Return the kind of the visitor and the name of the account to which a request belongs."""
        visitor = self.visitors.identify(connection)
        address = address_of(connection)
        if visitor.owner is None or (visitor.kind == "visitor" and not self._has_room(address, visitor.owner)):
            return visitor.kind, f"{_ADDRESS_PREFIX}{address}"
        return visitor.kind, visitor.owner

    def _has_room(self, address: str, owner: str) -> bool:
        """True if the visitor is among the first visitors from this address today."""
        if not self._max_visitors:
            return True
        if (day := int(self._clock() // 86_400)) != self._day:
            self._day = day
            self._known.clear()
        known = self._known.setdefault(address, set())
        self._known.move_to_end(address)
        if len(self._known) > _MAX_ADDRESSES:
            self._known.popitem(last=False)
        if len(known) < self._max_visitors:
            known.add(owner)
        return owner in known


class VisitLimits:
    """ASGI middleware that enforces the usage limits of each visitor.

    The limits apply to requests of the page and of other programs.
    """

    def __init__(
        self,
        app: ASGIApp,
        accounts: Accounts,
        settings: VisitSettings,
        *,
        must_sign_in: bool,
        admit: Callable[[Visitor], Awaitable[None]] | None = None,
    ) -> None:
        """Create the middleware.

        Args:
            app: ASGI application that handles the requests.
            accounts: Assignment of requests to accounts.
            settings: Limits for visitors.
            must_sign_in: True if only signed-in users may use the studio.
            admit: Async function that is called before a visitor stores data in the runtime. It raises an error if too
                many visitors with the same address have stored data there.
        """
        self.app = app
        self.admit = admit
        self.accounts = accounts
        self.settings = settings
        self.must_sign_in = must_sign_in
        self._sockets: Counter[str] = Counter()
        self._requests: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.accounts.visitors.has_separate_histories or scope["type"] not in {"http", "websocket"}:
            await self.app(scope, receive, send)
            return
        path = str(scope["path"])
        try:
            kind, name = self.accounts.account_of(HTTPConnection(scope))
            if (
                self.must_sign_in
                and kind != "member"
                and path.startswith(RESTRICTED_PATHS)
                and not path.startswith(_OPEN_PATHS)
            ):
                raise SignInNeeded
            is_surplus = (
                name.startswith(_ADDRESS_PREFIX)
                and self.accounts.visitors.identify(HTTPConnection(scope)).owner is not None
            )
            if is_surplus and stores(scope):
                raise StoreFull(
                    what="What you send", why="too many visitors from your address today; try again tomorrow"
                )
            if self.admit is not None and stores_in_runtime(scope):
                await self.admit(self.accounts.visitors.identify(HTTPConnection(scope)))
            if not path.startswith(API):
                await self.app(scope, receive, send)
            elif scope["type"] == "websocket":
                with self._within(self._sockets, name, self.settings.visitor_sockets, TooManyConnections):
                    await self.app(scope, receive, send)
            elif scope["method"] == "POST" and not path.startswith(VOICES_PATH):
                with self._within(self._requests, name, self.settings.visitor_requests, RateLimited):
                    await self.app(scope, receive, send)
            else:
                await self.app(scope, receive, send)
        except (SignInNeeded, StoreFull, StoreBusy, StorageFailed, TooManyConnections, RateLimited) as error:
            await _refuse(scope, receive, send, error)

    @contextmanager
    def _within(self, counter: Counter[str], name: str, limit: int, error: type[SpeechError]) -> Iterator[None]:
        if counter[name] >= limit:
            raise error(limit=limit, retry_after_s=RETRY_S)
        counter[name] += 1
        try:
            yield
        finally:
            counter[name] -= 1
            if not counter[name]:
                del counter[name]


def stores(scope: Scope) -> bool:
    """Return True if a request would store data of the visitor in the studio or the runtime."""
    path = scope["path"]
    is_change = scope.get("method", "GET") not in SAFE_METHODS | {"DELETE"}
    return is_change and path.startswith(_STORING_PATHS) and path not in _NOT_STORING_PATHS


def allowances(accounts: Accounts, settings: VisitSettings) -> Allowed:
    """Create a function that returns the account and the speech allowance of a request.

    The allowance is the daily maximum of generated speech in seconds. If all visitors share one history, the accounts
    are still separate for each network address.
    """

    def allowed(connection: HTTPConnection) -> Allowance:
        if not accounts.visitors.has_separate_histories:
            return Allowance(f"{_ADDRESS_PREFIX}{address_of(connection)}")
        kind, name = accounts.account_of(connection)
        seconds = settings.member_speech_s if kind == "member" else settings.visitor_speech_s
        return Allowance(name, seconds or None)

    return allowed


async def _refuse(scope: Scope, receive: Receive, send: Send, error: SpeechError) -> None:
    if scope["type"] == "http":
        await error_response(error)(scope, receive, send)
        return
    # The handshake is accepted first, because a page can read a message, but not the status of a refused handshake.
    offered = scope["subprotocols"]
    await receive()
    await send({"type": "websocket.accept", "subprotocol": offered[0] if offered else None})
    await send({"type": "websocket.send", "text": json.dumps(socket_error(error, scope["path"]))})
    await send({"type": "websocket.close", "code": error.close_code, "reason": error.code})
