"""Certificate authorities for connections to HTTPS servers."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def certificates() -> ssl.SSLContext:
    """Return the public authorities for ``verify`` of HTTP clients.

    They are read once per process, because reading them blocks the event loop for 30 ms, and short-lived clients would
    read them each time even for plain HTTP.
    """
    return httpx.create_ssl_context(trust_env=False)
