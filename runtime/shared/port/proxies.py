"""Middleware that takes the client's address and scheme from the proxies that the operator trusts."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network, ip_address

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

_IPV6_NETWORK_BITS = 64  # One customer of a provider has at least these addresses.


class TrustedProxies:
    """ASGI middleware around everything else. Thread: event loop.

    Each proxy appends the address that it was called from to ``X-Forwarded-For``. So the last ``count`` entries are the
    trusted proxies' and every earlier one may be the client's invention.
    """

    def __init__(self, app: ASGIApp, count: int) -> None:
        self._app = app
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._count and scope["type"] in {"http", "websocket"}:
            headers = Headers(scope=scope)
            if address := _address(self._entry(headers, "x-forwarded-for") or ""):
                scope["client"] = (address, 0)
            # Proxies pass this header on or replace it, so that there may be fewer entries than proxies.
            scheme = self._entry(headers, "x-forwarded-proto") or headers.get("x-forwarded-proto", "")
            if scheme in {"http", "https"}:
                scope["scheme"] = scheme.replace("http", "ws") if scope["type"] == "websocket" else scheme
        await self._app(scope, receive, send)

    def _entry(self, headers: Headers, name: str) -> str | None:
        """The entry of the outermost trusted proxy; None if fewer proxies than trusted have written one."""
        entries = [entry.strip() for line in headers.getlist(name) for entry in line.split(",")]
        return entries[-self._count] if len(entries) >= self._count else None


def _address(entry: str) -> str | None:
    """The address of an entry, to which some proxies add the port; None if it is no address."""
    if entry.startswith("["):
        entry = entry[1:].partition("]")[0]
    elif entry.count(":") == 1:
        entry = entry.partition(":")[0]
    try:
        return str(ip_address(entry))
    except ValueError:
        return None


def network_of(address: str) -> str:
    """Return the name under which limits count an address: a public IPv6 client owns a whole /64 network."""
    try:
        known = ip_address(address)
    except ValueError:
        return address
    if not isinstance(known, IPv6Address):
        return address
    if known.ipv4_mapped is not None:
        return str(known.ipv4_mapped)
    return str(IPv6Network((known, _IPV6_NETWORK_BITS), strict=False)) if known.is_global else address
