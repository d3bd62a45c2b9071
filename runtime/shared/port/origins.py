"""Tells which pages may use a port: its own, and those of origins that its operator names."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers

_PORTS = {"http": 80, "https": 443}
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

Origin = tuple[str, str, int]


def origins_of(words: str) -> frozenset[Origin | None]:
    """The origins of a setting, with commas between."""
    return frozenset(_origin(word.strip()) for word in words.split(",") if word.strip())


def may_use(headers: Headers, others: frozenset[Origin | None] = frozenset()) -> bool:
    """Whether a request comes from our own page, from one of the ``others``, or from a program, which tells none."""
    told = headers.getlist("origin")
    if not told:
        return headers.get("sec-fetch-site", "none") in {"none", "same-origin"}
    origin = _origin(told[0])
    own = {_origin(f"{scheme}://{headers.get('host', '')}") for scheme in _PORTS}
    return len(told) == 1 and origin is not None and origin in others | own


def _origin(word: str) -> Origin | None:
    """Scheme, host and port of an origin; None for ``null`` and whatever is none."""
    try:
        parts = urlsplit(word)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/") or parts.username is not None:
        return None
    return parts.scheme, parts.hostname, port or _PORTS[parts.scheme]
