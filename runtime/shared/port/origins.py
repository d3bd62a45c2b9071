"""Access checks of requests: hosts, origins, and addresses from trusted proxies."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.errors import HostRefused, InvalidSetting, OriginRefused, SpeechError, UnknownRoute
from runtime.settings import ServerSettings
from runtime.shared.port.errors import error_response
from runtime.shared.port.limits import ConnectionCaps

_PORTS = {"http": 80, "https": 443}
_SETTING = "VOICEWRIGHT_ORIGINS"
_ANY, _NULL = "*", "null"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

Origin = tuple[str, str, int | None]


class Origins:
    """Allowed origins, parsed from a setting.

    An entry has one of these formats: ``SCHEME://HOST`` or ``SCHEME://HOST:PORT`` for one origin, ``SCHEME://*.NAME``
    for all subdomains of a name, ``SCHEME://*`` for all origins of a scheme, ``*`` for all origins, or ``null`` for
    pages without an origin, such as local files.

    Args:
        setting: Entries separated by commas.
        paths: Prefixes of the paths that the origins may use.

    Raises:
        InvalidSetting: An entry does not have one of these formats.
    """

    def __init__(self, setting: str = "", paths: tuple[str, ...] = ("/",)) -> None:
        self._paths = paths
        entries = {word.strip() for word in setting.split(",") if word.strip()}
        self._any = _ANY in entries
        self._null = _NULL in entries
        self._named: set[Origin] = set()
        self._wild: list[Origin] = []
        for word in entries - {_ANY, _NULL}:
            origin = _origin(word)
            wild = origin is not None and "*" in origin[1].removeprefix("*.") and origin[1] != "*"
            if origin is None or wild:
                why = (
                    "an origin is SCHEME://HOST or SCHEME://HOST:PORT, where HOST may begin with *., and a name "
                    "outside ASCII is in Punycode (xn--…); or null, or *"
                )
                raise InvalidSetting(name=_SETTING, value=repr(word), why=why)
            if origin[1].startswith("*"):
                self._wild.append((origin[0], origin[1].removeprefix("*"), origin[2]))
            else:
                self._named.add(origin)

    def __bool__(self) -> bool:
        return self._any or self._null or bool(self._named or self._wild)

    def apply_to(self, path: str) -> bool:
        """True if the allowed origins apply to this path."""
        return path.startswith(self._paths)

    def allow(self, origin: str) -> bool:
        """True if the setting allows this value of an ``Origin`` header."""
        if self._any or (self._null and origin == _NULL):
            return True
        found = _origin(origin)
        return found is not None and (
            found in self._named
            or any(
                (found[0], found[2]) == (scheme, port) and found[1].endswith(ending)
                for scheme, ending, port in self._wild
            )
        )


def may_use(headers: Headers, others: Origins | None = None) -> bool:
    """True if a request comes from this server's page, an allowed origin, or a program.

    Programs send no ``Origin`` header.

    Args:
        headers: Headers of the request.
        others: Other allowed origins, or None.
    """
    sent = headers.getlist("origin")
    if not sent:
        return headers.get("sec-fetch-site", "none") in {"none", "same-origin"}
    if len(sent) > 1:
        return False
    own_origins = {_origin(f"{scheme}://{headers.get('host', '')}") for scheme in _PORTS}
    origin = _origin(sent[0])
    return (origin is not None and origin in own_origins) or (others is not None and others.allow(sent[0]))


class Cors(CORSMiddleware):
    """ASGI middleware that responds to CORS preflights and adds headers for allowed origins."""

    def __init__(self, app: ASGIApp, origins: Origins) -> None:
        super().__init__(app, allow_methods=["*"], allow_headers=["*"])
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_for_others = scope["type"] == "http" and self._origins.apply_to(scope["path"])
        await (super().__call__ if is_for_others else self.app)(scope, receive, send)

    def is_allowed_origin(self, origin: str) -> bool:
        return self._origins.allow(origin)


def _origin(word: str) -> Origin | None:
    """Parse an origin into (scheme, host, port), or return None if it is invalid.

    The port is None if the scheme has no default port.
    """
    try:
        parts = urlsplit(word if word.endswith("://") else word.removesuffix("/"))
        port = parts.port
    except ValueError:
        return None
    is_whole = not (parts.path or parts.query or parts.fragment) and parts.username is None
    # The scheme file is accepted, because WebViews of apps send file:// for their own pages.
    has_host = bool(parts.hostname or parts.scheme == "file")
    if not (parts.scheme and has_host and is_whole and word.isascii() and word.isprintable()) or " " in word:
        return None
    return parts.scheme, parts.hostname or "", port or _PORTS.get(parts.scheme)


_LOOPBACK = frozenset({"localhost", "*.localhost"})
# Names of private domains. Nobody can register them on the internet, so no untrusted page can use them.
_PRIVATE = frozenset({"*.local", "*.internal", "*.home.arpa", "*.lan", "*.test"})
ANY = "*"


class Hosts:
    """Allowed host names of this server.

    IP addresses are always allowed because DNS rebinding needs a name.
    """

    def __init__(self, names: str, address: str, env: Mapping[str, str] | None = None) -> None:
        """Parse the setting with the allowed host names.

        Args:
            names: Host names separated by commas.
            address: Address to which the port is bound. It is also an allowed name.
            env: Environment variables, by default those of this process.
        """
        env = os.environ if env is None else env
        entries = {word.strip().lower() for word in names.split(",") if word.strip()} | {address.lower()} | _LOOPBACK
        # True if a host name without a dot is accepted. Other machines may use such a short name of this machine or
        # container.
        self._takes_bare = not _is_loopback(address)
        if self._takes_bare:
            entries |= _PRIVATE
        self._names = entries
        self._endings = tuple(word[1:] for word in entries if word.startswith("*."))
        # In a Hugging Face Space, any host name is accepted. Only the platform's proxy can reach it, and the platform
        # chooses the names.
        self._any = ANY in self._names or bool(env.get("SPACE_ID"))

    def allow(self, header: str) -> bool:
        """True if the value of a Host header is allowed.

        A missing header is allowed, because HTTP/1.0 does not require it.
        """
        if self._any or not header:
            return True
        try:
            parts = urlsplit(f"//{header}")
            name = (parts.hostname or "").rstrip(".")
            _ = parts.port
        except ValueError:
            return False
        if not name or parts.username is not None or parts.path or parts.query or parts.fragment:
            return False
        is_bare = "." not in name
        return (
            name in self._names or name.endswith(self._endings) or _is_address(name) or (is_bare and self._takes_bare)
        )


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


# Number of leading bits of an IPv6 address that identify a customer. Internet providers assign at least a /64 network
# to each customer.
_IPV6_NETWORK_BITS = 64
_UNIQUE_LOCAL = IPv6Network("fc00::/7")


class TrustedProxies:
    """ASGI middleware that sets the client address from ``X-Forwarded-For``.

    It must be the outermost middleware. Each proxy appends the address of its client to the header. Therefore only the
    last `count` entries come from trusted proxies, and earlier entries may be forged.

    Thread: event loop.
    """

    def __init__(self, app: ASGIApp, count: int) -> None:
        self._app = app
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._count and scope["type"] in {"http", "websocket"}:
            headers = Headers(scope=scope)
            if address := _address(self._entry(headers, "x-forwarded-for") or ""):
                scope["client"] = (address, 0)
            # The header may have fewer entries than there are proxies, because some proxies replace it.
            scheme = self._entry(headers, "x-forwarded-proto") or headers.get("x-forwarded-proto", "")
            if scheme in {"http", "https"}:
                scope["scheme"] = scheme.replace("http", "ws") if scope["type"] == "websocket" else scheme
        await self._app(scope, receive, send)

    def _entry(self, headers: Headers, name: str) -> str | None:
        """Return the entry that the outermost trusted proxy added, or None if it is missing."""
        entries = [entry.strip() for line in headers.getlist(name) for entry in line.split(",")]
        return entries[-self._count] if len(entries) >= self._count else None


def _address(entry: str) -> str | None:
    """Return the address of an entry without a port, or None if the entry is not an address."""
    if entry.startswith("["):
        entry = entry[1:].partition("]")[0]
    elif entry.count(":") == 1:
        entry = entry.partition(":")[0]
    try:
        return str(ip_address(entry))
    except ValueError:
        return None


def network_of(address: str) -> str:
    """Return the text that identifies a client's network in limits per address.

    For IPv6, this is the /64 network, because a client often has all its addresses. In a local network, all machines
    share a /64 network, so the result is the address itself.
    """
    try:
        known = ip_address(address)
    except ValueError:
        return address
    if not isinstance(known, IPv6Address):
        return address
    if known.ipv4_mapped is not None:
        return str(known.ipv4_mapped)
    if known.is_loopback or known.is_link_local or known in _UNIQUE_LOCAL:
        return address
    return str(IPv6Network((known, _IPV6_NETWORK_BITS), strict=False))


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
    """ASGI middleware that checks access to all HTTP and WebSocket routes of a port.

    Requests to /health and /ready are not checked. For all other requests, the checks run in this order, inexpensive
    checks first. A request that fails a check gets the status in parentheses:

    1. The path has no dot segments (``..``), which later handlers might resolve differently (404).
    2. The Host and X-Forwarded-Host headers contain only allowed names (403).
    3. The numbers of connections, in total and per address (except loopback), are within the limits (503).
    4. The Origin header of a WebSocket or an unsafe method is allowed (403). Requests without an Origin come from
       programs.

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
