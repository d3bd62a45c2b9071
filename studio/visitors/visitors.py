"""Identification of visitors by cookie or sign-in, or as one shared owner.

A cookie contains a random number and the studio's signature, so it cannot be forged. It is partitioned by site, so it
works inside a frame of another site, for example on a Hugging Face Space. The store has only a hash of the number.
Therefore, a person who reads the store cannot impersonate a visitor.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.shared.port.origins import network_of
from studio.errors import VisitorUnknown
from studio.store.owned_rows import HOST_OWNER, MEMBER_PREFIX, VISITOR_PREFIX

COOKIE = "voicewright_visitor"
COOKIE_S = 365 * 86400
# Routes that set the cookie if it is missing: the page, and the first request of a program.
GIVEN_AT = frozenset({"/", "/studio/me"})

_COOKIE = re.compile(r"([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{43})")  # Random number and signature, each 256 bits.

# Function that returns the id and the name of a signed-in user, or None.
MemberOf = Callable[[HTTPConnection], tuple[str, str] | None]


@dataclass(frozen=True, slots=True)
class Visitor:
    """Identity of the person or program that has sent a request.

    `owner` is None for a visitor without a cookie, who has no stored data. `address` is a keyed hash of the visitor's
    network address. It allows quotas per address without storing the address.
    """

    kind: str  # "host", "visitor" or "member".
    owner: str | None
    name: str | None = None
    address: str | None = None

    @property
    def owner_and_address(self) -> tuple[str, str | None]:
        """Return the owner name and the hashed address under which the visitor's data is stored.

        Raises:
            VisitorUnknown: The visitor has no cookie.
        """
        return self.required_owner, self.address

    @property
    def required_owner(self) -> str:
        """Return the owner name under which the visitor's data is stored.

        Raises:
            VisitorUnknown: The visitor has no cookie.
        """
        if self.owner is None:
            raise VisitorUnknown
        return self.owner


class Visitors:
    """Identification of the visitor who has sent a request.

    `key` signs the cookies of visitors. If it is empty, a random key is used, and cookies are valid until the process
    ends.

    Thread: event loop.
    """

    def __init__(self, *, has_separate_histories: bool, key: bytes = b"", member_of: MemberOf | None = None) -> None:
        self.has_separate_histories = has_separate_histories
        self.member_of = member_of
        self._key = key or secrets.token_bytes(32)

    def identify(self, request: HTTPConnection) -> Visitor:
        """Return the visitor who has sent a request."""
        if not self.has_separate_histories:
            return Visitor("host", HOST_OWNER)
        member = self.member_of(request) if self.member_of is not None else None
        if member is not None:
            return Visitor("member", MEMBER_PREFIX + member[0], member[1])
        token = self.token_of(request.headers) or request.scope.get("state", {}).get(COOKIE)
        owner = None if token is None else VISITOR_PREFIX + _hashed(token)
        return Visitor("visitor", owner, address=self._signature(f"address {address_of(request)}"))

    def token_of(self, headers: Headers) -> str | None:
        """Return the token in the visitor's cookie, or None if the cookie is missing or invalid."""
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return None
        found = _COOKIE.fullmatch(cookie.value) if cookie is not None else None
        if found is None or not hmac.compare_digest(found[2], self._signature(f"visitor {found[1]}")):
            return None
        return found[1]

    def signed(self, token: str) -> str:
        """Return the cookie value for a token: the token and its signature."""
        return f"{token}.{self._signature(f'visitor {token}')}"

    def _signature(self, text: str) -> str:
        signature = hmac.new(self._key, text.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(signature).decode().rstrip("=")


class VisitorCookies:
    """ASGI middleware that gives each visitor a cookie, and renews it when the page is opened."""

    def __init__(self, app: ASGIApp, visitors: Visitors) -> None:
        self.app = app
        self.visitors = visitors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asks = scope["type"] == "http" and scope["path"] in GIVEN_AT and scope["method"] in {"GET", "HEAD"}
        if not (self.visitors.has_separate_histories and asks):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        known = self.visitors.token_of(headers)
        token = known or secrets.token_urlsafe(32)
        # Store the token for the application, because the browser gets the cookie only with this response.
        scope.setdefault("state", {})[COOKIE] = token

        async def with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start" and (known is None or scope["path"] == "/"):
                value = cookie(self.visitors.signed(token), secure=is_https(scope, headers))
                MutableHeaders(scope=message).append("set-cookie", value)
            await send(message)

        await self.app(scope, receive, with_cookie)


def address_of(connection: HTTPConnection) -> str:
    """Return the client's network address for usage limits.

    For IPv6, the prefix of the client's network is returned.
    """
    return network_of(connection.client.host if connection.client else "")


def cookie(value: str, *, secure: bool) -> str:
    """Return the value of the Set-Cookie header that sets the visitor's cookie.

    In a frame of another site, browsers only accept a cookie that is sent over HTTPS and partitioned by site.
    """
    place = "SameSite=None; Secure; Partitioned" if secure else "SameSite=Lax"
    return f"{COOKIE}={value}; Path=/; Max-Age={COOKIE_S}; HttpOnly; {place}"


def is_https(scope: MutableMapping[str, Any], headers: Headers) -> bool:
    """Return True if the browser used HTTPS, even if a proxy has forwarded the request."""
    return (headers.get("x-forwarded-proto") or str(scope.get("scheme", ""))).split(",")[0].strip() == "https"


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()[:32]
