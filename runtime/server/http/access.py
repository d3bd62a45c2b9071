"""Access control middleware for all HTTP and WebSocket routes.

The middleware runs after `RequestGuard` (`shared/port/origins.py`), which the studio also uses. Requests to /health and
/ready are not checked. For all other requests, the checks run in this order. A request that fails a check gets the
status in parentheses:

1. Rate limit of the API key, of the address if there is no valid key, or of the studio's account (429). Each
   additional utterance of an HTTP request or WebSocket counts as another request.
2. API key, if the server has keys (401). A WebSocket may send a ticket instead.
3. Size of the body, while the body arrives (413).

A WebSocket is refused with an HTTP response instead of a handshake. No client data is logged.
"""

from __future__ import annotations

import hmac
import time
from functools import partial
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.errors import MessageTooLarge, MoreThan, RateLimited, SpeechError, Unauthorized
from runtime.server.caller import CALLER, Caller
from runtime.server.engine_host import EngineHost
from runtime.server.http.keys import Clock, KeyRing, TicketStore, digest
from runtime.server.rate_limit import RateLimit
from runtime.shared.port.errors import CARTESIA, error_response
from runtime.shared.port.limits import ACCOUNT_KEY_HEADER, Allowance, allowance_of
from runtime.shared.port.origins import AccessCheck

# Prefix of a WebSocket subprotocol with which browsers send an API key.
TOKEN = "voicewright.token."  # noqa: S105


class AccessControl(AccessCheck):
    """ASGI middleware that checks rate limits, API keys and body sizes.

    Thread: event loop.
    """

    def __init__(
        self, app: ASGIApp, host: EngineHost, keys: KeyRing, tickets: TicketStore, clock: Clock = time.monotonic
    ) -> None:
        super().__init__(app, host.metrics.count_refusal)
        self._host = host
        self._settings = host.settings.server
        self._tickets = tickets
        self._keys = keys
        self._rate_limit = RateLimit(self._settings.requests_per_minute, clock)
        self._max_body_bytes = host.settings.limits.max_body_bytes

    async def _admit(self, scope: Scope, receive: Receive, send: Send, address: str) -> None:
        if scope["type"] == "http":
            with self._host.count_open_request():
                await self._pass_http(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _check(self, scope: Scope, address: str) -> None:
        """Check the rate limit, the API key and the declared body size of a request.

        Raises:
            RateLimited, Unauthorized, MessageTooLarge: A check failed, in this order.
        """
        headers = Headers(scope=scope)
        key = self._good_key(scope, headers)
        allowance = allowance_of(headers)
        count = partial(self._rate_limit.wait_s, self._counted_as(headers, key or address.encode(), allowance))
        if wait_s := count():
            raise RateLimited(retry_after_s=round(wait_s, 3))
        if self._keys.is_needed and key is None:
            raise Unauthorized
        CALLER.set(Caller(key.hex() if key else address, allowance, count))
        if scope["type"] == "websocket":
            scope["subprotocols"] = [word for word in scope["subprotocols"] if not word.startswith(TOKEN)]
        elif (length := headers.get("content-length", "")).isdecimal() and int(length) > self._max_body_bytes:
            raise self._too_large(int(length))

    def _counted_as(self, headers: Headers, identity: bytes, allowance: Allowance | None) -> bytes:
        """Return the key of the token bucket for the client or the account.

        The account header is used only if the studio's secret is correct, because clients could forge the header.
        """
        secret = self._settings.account_key.encode()
        offered = headers.get(ACCOUNT_KEY_HEADER, "").encode()
        if allowance is None or not secret or not hmac.compare_digest(offered, secret):
            return identity
        return identity + b"/" + allowance.account.encode()

    def _good_key(self, scope: Scope, headers: Headers) -> bytes | None:
        """Return the digest of the request's API key or ticket, or None if neither is valid."""
        if not self._keys.is_needed:
            return None
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        offered = [headers.get("x-api-key"), headers.get("xi-api-key")]
        offered.append(bearer.strip() if scheme.lower() == "bearer" else None)
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if scope["path"].startswith(CARTESIA):
            # Cartesia's clients send the key as a query parameter if they cannot set headers.
            offered += query.get("api_key", [])[:1]
        if scope["type"] == "websocket":
            offered += [word.removeprefix(TOKEN) for word in scope["subprotocols"] if word.startswith(TOKEN)]
        for key in filter(None, offered):
            offer = digest(key)
            # Every key is compared, and in constant time, so that the response time reveals nothing about the keys.
            if any([hmac.compare_digest(offer, known) for known in self._keys.digests()]):
                return offer
        if scope["type"] == "websocket":
            tickets = query.get("ticket", [])
            if len(tickets) == 1 and self._tickets.redeem(tickets[0]):
                return digest(tickets[0])
        return None

    async def _pass_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward an HTTP request, and limit the size of its body."""
        count, started, cut = 0, False, False

        async def counted() -> Message:
            nonlocal count, cut
            if cut:
                return {"type": "http.disconnect"}
            message = await receive()
            count += len(message.get("body", b""))
            if count > self._max_body_bytes:
                cut = True
                error = self._too_large(MoreThan(self._max_body_bytes))
                self._refused(error.code)
                if not started:
                    await error_response(error, {"Connection": "close"})(scope, receive, send)
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
