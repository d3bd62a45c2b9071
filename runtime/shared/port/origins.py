"""The pages that may use a port: its own, and those of origins that its operator names."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.errors import InvalidSetting

_PORTS = {"http": 80, "https": 443}
_SETTING = "VOICEWRIGHT_ORIGINS"
_ANY, _NULL = "*", "null"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

Origin = tuple[str, str, int | None]


class Origins:
    """The setting, read once for preflights, requests and WebSockets.

    An entry is an origin of any scheme, ``SCHEME://*.NAME`` for all names that end so, ``SCHEME://*`` for all of a
    scheme, ``null`` (pages without an origin, such as local files) or ``*``.

    Args:
        setting: entries, separated by commas.
        paths: beginnings of the paths that the origins may use.

    Raises:
        InvalidSetting: an entry is none of these.
    """

    def __init__(self, setting: str = "", paths: tuple[str, ...] = ("/",)) -> None:
        self._paths = paths
        words = {word.strip() for word in setting.split(",") if word.strip()}
        self._any = _ANY in words
        self._null = _NULL in words
        self._named: set[Origin] = set()
        self._wild: list[Origin] = []
        for word in words - {_ANY, _NULL}:
            origin = _origin(word)
            wild = origin is not None and "*" in origin[1].removeprefix("*.") and origin[1] != "*"
            if origin is None or wild:
                why = "an origin is SCHEME://HOST or SCHEME://HOST:PORT, where HOST may begin with *.; or null, or *"
                raise InvalidSetting(name=_SETTING, value=repr(word), why=why)
            if origin[1].startswith("*"):
                self._wild.append((origin[0], origin[1].removeprefix("*"), origin[2]))
            else:
                self._named.add(origin)

    def __bool__(self) -> bool:
        return self._any or self._null or bool(self._named or self._wild)

    def hold_for(self, path: str) -> bool:
        """Return True if the origins may use this path."""
        return path.startswith(self._paths)

    def allow(self, origin: str) -> bool:
        """Return True if the operator allows the origin of this ``Origin`` header."""
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
    """Return True if a request comes from our own page, an allowed origin, or a program, which sends no ``Origin``."""
    sent = headers.getlist("origin")
    if not sent:
        return headers.get("sec-fetch-site", "none") in {"none", "same-origin"}
    if len(sent) > 1:
        return False
    own = {_origin(f"{scheme}://{headers.get('host', '')}") for scheme in _PORTS}
    origin = _origin(sent[0])
    return (origin is not None and origin in own) or (others is not None and others.allow(sent[0]))


class Cors(CORSMiddleware):
    """CORS headers and preflights for the origins that requests are allowed from."""

    def __init__(self, app: ASGIApp, origins: Origins) -> None:
        super().__init__(app, allow_methods=["*"], allow_headers=["*"])
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_for_others = scope["type"] == "http" and self._origins.hold_for(scope["path"])
        await (super().__call__ if is_for_others else self.app)(scope, receive, send)

    def is_allowed_origin(self, origin: str) -> bool:
        return self._origins.allow(origin)


def _origin(word: str) -> Origin | None:
    """Scheme, host and port of an origin; None if it is none. The port is None if a custom scheme has no port."""
    try:
        parts = urlsplit(word.removesuffix("/"))
        port = parts.port
    except ValueError:
        return None
    is_whole = not (parts.path or parts.query or parts.fragment) and parts.username is None
    if not (parts.scheme and parts.hostname and is_whole and word.isascii() and word.isprintable()) or " " in word:
        return None
    return parts.scheme, parts.hostname, port or _PORTS.get(parts.scheme)
