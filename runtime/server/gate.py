"""The gate: one middleware around every route, HTTP and WebSocket alike, that decides who comes in.

What it looks at, in this order, so that the cheap comes before the dear and nobody learns more than he may:

1. /health and /ready are open to everybody.
2. Connections, in all and of one address (loopback excepted): 503.
3. Origin, of WebSockets and of methods that change something: 403. A request without one comes from a program.
4. Requests a minute, of one key, or of one address where no good key came: 429.
5. The key, where the server has any: 401. A WebSocket may bring a ticket instead.
6. The body's size, as it comes: 413.

A refused WebSocket is answered by HTTP before it is accepted. Nothing that a client sent is logged.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.errors import MessageTooLarge, OriginRefused, RateLimited, SpeechError, TooManyConnections, Unauthorized
from runtime.server.host import Host
from runtime.server.refusals import refusal

OPEN = frozenset({"/health", "/ready"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
TOKEN = "voicewright.token."  # noqa: S105  prefix of a subprotocol that carries a key, for browsers

_RETRY_AFTER_S = 1.0
_MAX_REMEMBERED = 4096  # tickets, and callers whose rate is counted
_FORM_BYTES = 64 * 2**10  # around an uploaded file
_PORTS = {"http": 80, "https": 443}

Clock = Callable[[], float]


class Tickets:
    """Keys that open one WebSocket, soon."""

    def __init__(self, ticket_s: float, clock: Clock = time.monotonic) -> None:
        self.ticket_s = ticket_s
        self._clock = clock
        self._ends: OrderedDict[bytes, float] = OrderedDict()  # digest -> when it is void

    def issue(self) -> str:
        ticket = secrets.token_urlsafe(32)
        self._ends[_digest(ticket)] = self._clock() + self.ticket_s
        if len(self._ends) > _MAX_REMEMBERED:
            self._ends.popitem(last=False)
        return ticket

    def redeem(self, ticket: str) -> bool:
        """Tell whether the ticket is good; it is not any more after this."""
        end = self._ends.pop(_digest(ticket), None)
        return end is not None and self._clock() < end


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled: float  # when


class Rate:
    """A token bucket a caller: a minute's requests at once, then as many a minute."""

    def __init__(self, per_minute: int, clock: Clock = time.monotonic) -> None:
        self._most = per_minute
        self._clock = clock
        self._buckets: OrderedDict[bytes, _Bucket] = OrderedDict()

    def wait_s(self, caller: bytes) -> float:
        """Take a token, or return the seconds until there is one."""
        if not self._most:
            return 0.0
        now = self._clock()
        bucket = self._buckets.setdefault(caller, _Bucket(self._most, now))
        self._buckets.move_to_end(caller)
        if len(self._buckets) > _MAX_REMEMBERED:
            self._buckets.popitem(last=False)
        bucket.tokens = min(self._most, bucket.tokens + (now - bucket.filled) * self._most / 60)
        bucket.filled = now
        if bucket.tokens < 1:
            return (1 - bucket.tokens) * 60 / self._most
        bucket.tokens -= 1
        return 0.0


class Gate:
    """ASGI middleware. Thread: event loop."""

    def __init__(self, app: ASGIApp, host: Host, tickets: Tickets, clock: Clock = time.monotonic) -> None:
        self._app = app
        self._host = host
        self._settings = host.settings.server
        self._tickets = tickets
        self._keys = [_digest(key) for key in self._settings.keys]
        self._origins = {_origin(word.strip()) for word in self._settings.origins.split(",") if word.strip()}
        self._rate = Rate(self._settings.requests_per_minute, clock)
        self._by_address: Counter[str] = Counter()
        limits = host.settings.limits
        self._max_body_bytes = max(limits.max_config_bytes, limits.max_upload_bytes + _FORM_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"} or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        address = scope["client"][0] if scope.get("client") else ""
        try:
            self._check(scope, address)
        except SpeechError as error:
            self._host.metrics.refused(error.code)
            await refusal(error)(scope, receive, send)
            return
        self._by_address[address] += 1
        try:
            if scope["type"] == "http":
                with self._host.answering():
                    await self._pass_http(scope, receive, send)
            else:
                await self._app(scope, receive, send)
        finally:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def _check(self, scope: Scope, address: str) -> None:
        """Raise why this request may not come in.

        Raises:
            TooManyConnections, OriginRefused, RateLimited, Unauthorized, MessageTooLarge: in that order.
        """
        self._check_connections(address)
        headers = Headers(scope=scope)
        if scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS:
            self._check_origin(headers)
        key = self._good_key(scope, headers)
        if wait_s := self._rate.wait_s(key or address.encode()):
            raise RateLimited(retry_after_s=round(wait_s, 3))
        if self._keys and key is None:
            raise Unauthorized
        if scope["type"] == "websocket":
            scope["subprotocols"] = [word for word in scope["subprotocols"] if not word.startswith(TOKEN)]
        elif (length := headers.get("content-length", "")).isdecimal() and int(length) > self._max_body_bytes:
            raise self._too_large(int(length))

    def _check_connections(self, address: str) -> None:
        per_address = self._settings.max_connections_per_address
        if self._by_address.total() >= self._settings.max_connections:
            raise TooManyConnections(limit=self._settings.max_connections, retry_after_s=_RETRY_AFTER_S)
        if self._by_address[address] >= per_address and not _is_loopback(address):
            raise TooManyConnections(limit=per_address, retry_after_s=_RETRY_AFTER_S)

    def _check_origin(self, headers: Headers) -> None:
        origins = headers.getlist("origin")
        if not origins:
            return
        origin = _origin(origins[0])
        ours = {_origin(f"{scheme}://{headers.get('host', '')}") for scheme in _PORTS}
        if len(origins) > 1 or origin is None or origin not in self._origins | ours:
            raise OriginRefused

    def _good_key(self, scope: Scope, headers: Headers) -> bytes | None:
        """The digest of what opens the gate, or None."""
        if not self._keys:
            return None
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        offered = [headers.get("x-api-key"), headers.get("xi-api-key")]
        offered.append(bearer.strip() if scheme.lower() == "bearer" else None)
        if scope["type"] == "websocket":
            offered += [word.removeprefix(TOKEN) for word in scope["subprotocols"] if word.startswith(TOKEN)]
        for key in filter(None, offered):
            digest = _digest(key)
            # Every key is compared, and digests in constant time: the answer's time says nothing of either.
            if any([hmac.compare_digest(digest, known) for known in self._keys]):
                return digest
        if scope["type"] == "websocket":
            tickets = parse_qs(scope["query_string"].decode("latin-1")).get("ticket", [])
            if len(tickets) == 1 and self._tickets.redeem(tickets[0]):
                return _digest(tickets[0])
        return None

    async def _pass_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, and its body up to the limit."""
        count, started, cut = 0, False, False

        async def counted() -> Message:
            nonlocal count, cut
            if cut:
                return {"type": "http.disconnect"}
            message = await receive()
            count += len(message.get("body", b""))
            if count > self._max_body_bytes:
                cut = True
                error = self._too_large(count)
                self._host.metrics.refused(error.code)
                if not started:
                    await refusal(error, {"Connection": "close"})(scope, receive, send)
                return {"type": "http.disconnect"}
            return message

        async def unless_cut(message: Message) -> None:
            nonlocal started
            if not cut:
                started = True
                await send(message)

        await self._app(scope, counted, unless_cut)

    def _too_large(self, size: int) -> SpeechError:
        return MessageTooLarge(what="The body", size=size, limit=self._max_body_bytes)


def _digest(word: str) -> bytes:
    return sha256(word.encode(errors="surrogateescape")).digest()


def _origin(word: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an origin; None for ``null`` and whatever is none."""
    try:
        parts = urlsplit(word)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/") or parts.username is not None:
        return None
    return parts.scheme, parts.hostname, port or _PORTS[parts.scheme]


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
